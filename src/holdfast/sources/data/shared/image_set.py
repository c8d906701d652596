"""The images of one audit: a seeded subset of a source, read lazily, the same on every machine."""

import copy
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from statistics import median_low

import PIL.Image
import torch
from torch import Tensor

from holdfast.core import Corruption, Geometry, HoldfastError, Images, ImageSource, Rng, Threat
from holdfast.core.geometry import BY_SHAPES
from holdfast.numerics.geometry.copies import copies, shrink_to_grey, steps_for
from holdfast.runtime.errors import BadValue, Mismatch, Missing
from holdfast.sources.data.shared.cache import LIMIT, Kept
from holdfast.sources.data.shared.choice import SLICE, TOGETHER, Choice
from holdfast.sources.data.shared.chosen import ChosenImages
from holdfast.sources.data.shared.geometry import Conversion, Pixels, convert, fit
from holdfast.sources.data.shared.in_words import rendering_in_words
from holdfast.sources.data.shared.own_size import OwnImage, corrupt_images, map_to_own_size, own_image
from holdfast.sources.data.shared.pictures import one_large_at_a_time
from holdfast.sources.data.shared.selection import Selection
from holdfast.sources.data.shared.threads import Threads, result

USUAL = 224
"""Pixels of the shorter side to which pictures of mixed shapes are scaled, unless they are smaller; ImageNet's."""

MOST_COMPARED = 2000
"""Images of which all pairs are compared, to know copies that thumbnails do not tell."""

THREADS = 16
"""Threads that read and decode, at most: Pillow lets others run while it does so."""


class ImageSet(ChosenImages):
    """A seeded subset of a source, rendered for an encoder; images are read when asked for.

    Which images, and in which order, depends on the seed and the ids alone: every id has a random number drawn
    from (seed, id), and the smallest come first. So neither the order of files on disk nor other files
    (beyond the one place each may take) change the choice.

    Args:
        source: where the images come from.
        images: how many of them; all where None or where the source has fewer (`available`).
        seed: the seed of the run.
        geometry: how pictures become pixels, see `Encoder.geometry`; None keeps them as they are.
        skip_corrupt: replace images that cannot be read by the next of the permutation instead of failing.
        workers: threads that read and decode; None: as many as there are cores, at most `THREADS`.
        conversion: sizes and channels that the user asked for.
        kept: bytes of decoded pictures that are kept, in all geometries together; see `Kept`.
        skip_duplicates: replace images that look like an earlier one by the next of the permutation.
        queries: of a retrieval task, how many queries are chosen, see `Relevance.order`. They come first, then what is
            relevant to them, then the rest of the corpus; each in the order of their random numbers.

    Raises:
        HoldfastError: fewer than two images, or ids that are not unique.
    """

    def __init__(
        self,
        source: ImageSource,
        *,
        images: int | None = None,
        seed: int = 0,
        geometry: Geometry | None = None,
        skip_corrupt: bool = False,
        workers: int | None = None,
        conversion: Conversion | None = None,
        kept: int = LIMIT,
        skip_duplicates: bool = False,
        queries: int | None = None,
    ):
        if images is not None and images < 2:
            raise BadValue(f"expected at least 2 images, got {images}; an audit compares images with each other")
        self.geometry = geometry
        self.conversion = conversion or Conversion()
        # Decoding releases the interpreter, so threads are enough
        self._threads = Threads(min(THREADS, cores()) if workers is None else max(1, workers))
        self._kept = Kept(kept)
        self._ends: set[int] = set()  # where somebody who went through the images stopped and the next one began anew
        self._first = self._last = 0
        super().__init__(Choice(source, images, seed, skip_corrupt, self._threads, skip_duplicates, queries))
        self._ahead: dict[range, Future[list[Pixels]]] = {}
        self._shape: tuple[int, int, int] | None = None

    @property
    def sized(self) -> bool:
        """Whether images have a size: their own, one that the user asked for, or that of an encoder."""
        return self._choice.source.sized or self.conversion.size is not None or self.geometry is not None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image; reads the first."""
        if self._shape is None:
            channels, height, width = self._read([0])[0].shape
            self._shape = channels, height, width
        return self._shape

    @property
    def common_geometry(self) -> Geometry | None:
        """How pictures of mixed shapes get one for an encoder that names none; None where they have one already.

        Their shorter side is scaled to `USUAL` pixels, or to the middle one of theirs where that is less, and the
        centre square is cropped; grey ones become RGB where some have colours.
        """
        if self.conversion.size is not None or not self._choice.sample:
            return None
        channels, heights, widths = zip(*self._choice.sample, strict=True)
        # Shapes that are one need no common one
        if not self._choice.has_mixed_sizes and (self.conversion.channels or len(set(channels)) == 1):
            return None
        # No larger than the middle one, so that at most half of the pictures are enlarged
        side = min(USUAL, median_low(map(min, heights, widths)))
        size = (side, side) if self._choice.has_mixed_sizes else (heights[0], widths[0])
        return Geometry(size, self.conversion.channels or max(channels), min(size), source=BY_SHAPES)

    @property
    def duplicates(self) -> list[tuple[str, str, int]]:
        """Every image that looks like an earlier one, or shows its picture with noise, moved or cropped by a little.

        As (id, id of that one, grey levels); see `LookAlikes`, and `copies` for the latter, which of more than 2,000
        images are not looked for. Reads all of them. They are among the images, unless `skip_duplicates` left them out.
        """
        return [*super().duplicates, *self._copies]

    def leave_out_copies(self) -> None:
        """Leave out every image that shows the picture of an earlier one; reads all of them. One may remain."""
        if copies := self._copies:
            self._choice.copies = []
            self._choice.leave_out_copies(copies)

    @property
    def _copies(self) -> list[tuple[str, str, int]]:
        """What shows the picture of an earlier image and is no look-alike; looked for once in all renderings."""
        if self._choice.copies is None:
            self._choice.copies = self._find_copies() if len(self) <= MOST_COMPARED else []
        return self._choice.copies

    def _find_copies(self) -> list[tuple[str, str, int]]:
        shown = self.with_geometry(self.geometry or self.common_geometry)
        known = {image for image, _, _ in self._choice.duplicates}
        try:
            batches = [shown.batch(at, min(at + TOGETHER, len(self))) for at in range(0, len(self), TOGETHER)]
        except HoldfastError:  # what cannot be rendered alike is said where an encoder is shown it
            return []
        # [N, 1, H, W] of small grey images: all pairs are compared
        images = torch.cat([shrink_to_grey(batch) for batch in batches])
        # The place of the first image that shows the same picture; its own where there is none
        first = copies(images, steps_for(shown.shape))
        levels = (255 * (images - images[first]).abs().flatten(1).amax(1)).round().int().tolist()
        return [
            (self.ids[place], self.ids[like], levels[place])
            for place, like in enumerate(first.tolist())
            if place != like and self.ids[place] not in known
        ]

    @property
    def rendering(self) -> str:
        """From which sizes images are brought to that of the encoder, and how; "" where they stay as they are."""
        return rendering_in_words(self._choice.traits, self.conversion, self.geometry)

    def with_geometry(self, geometry: Geometry | None) -> "ImageSet":
        """Return the same images for another encoder; choice, fingerprint and skips are shared, not repeated."""
        # A shallow copy shares the choice, the threads and what was decoded
        twin = copy.copy(self)
        twin.geometry, twin._ahead, twin._shape = geometry, {}, None
        twin._ends, twin._first, twin._last = set(self._ends), 0, 0
        return twin

    def unread(self, size: int) -> "ImageSet":
        """Return the first images without a fingerprint, for which all would be read; nothing they give may be kept."""
        twin = self.with_geometry(self.geometry)
        # A choice of its own, whose fingerprint is given, so that nothing asks for all images
        twin._choice = copy.copy(self._choice)
        twin._choice.recall(
            Selection(self.available, self._choice.rows[:size], "", [], [], self._choice.has_mixed_sizes)
        )
        if (relevance := twin._choice.relevance) is not None:
            twin._choice.relevance = replace(relevance, missing=0)
        return twin

    def batch(self, start: int, stop: int) -> Images:
        """Return images start to stop (excluded), [B, C, H, W] in [0, 1]; the next batch is read meanwhile.

        Where the last reader stopped, the first images are read as well: the next observation begins there.

        Raises:
            HoldfastError: an image that cannot be read, is not in [0, 1] or has another shape, by its id.
        """
        if not 0 <= start < stop <= len(self):
            raise BadValue(f"expected 0 <= start < stop <= {len(self)}, got start={start}, stop={stop}")
        # Someone begins anew: where the one before stopped, the next is likely to stop too
        if start == 0:
            self._ends.add(self._last)
            self._first = stop
        self._last = stop
        futures = [self._submit(places) for places in self._pieces(start, stop)]
        # As many again, from here on
        next_ones = self._pieces(stop, min(2 * stop - start, len(self)))
        if stop == len(self) or stop in self._ends:
            next_ones += self._pieces(0, min(self._first, start))
        # What was read ahead and is asked for stays; the rest is dropped
        self._ahead = {places: self._submit(places) for places in dict.fromkeys(next_ones)}
        return self._together(range(start, stop), [pixels for future in futures for pixels in result(future)])

    def pick(self, places: Sequence[int]) -> Images:
        """Return images at any places, in that order, [B, C, H, W] in [0, 1].

        Raises:
            HoldfastError: as `batch`.
        """
        if not places or not 0 <= min(places) <= max(places) < len(self):
            raise BadValue(f"expected places from 0 to {len(self) - 1}, got {list(places)[:10]}")
        slices = [places[at : at + SLICE] for at in range(0, len(places), SLICE)]
        read = self._threads.map(self._read, slices)
        return self._together(places, [pixels for several in read for pixels in several])

    def disturb(self, x: Images, places: Sequence[int], threat: Threat, rng: Rng, *, as_maps: bool = False) -> Images:
        """Return images under a threat; those of a corruption at their own resolution are read, corrupted and resized.

        Args:
            x: the images as the encoder sees them, [B, C, H, W].
            places: where they stand; some may be there several times in a row.
            threat: what befalls them.
            rng: random numbers bound to their ids.
            as_maps: x are maps of such images, [B, 1, H, W], which move as the images would; NaN of those that are
                cropped.

        Raises:
            HoldfastError: a threat that these images do not fit, or an image that cannot be read.
        """
        if not (isinstance(threat, Corruption) and threat.resolution == "image"):
            return threat.sample(x, rng)
        images = self._own_images(places)
        out = list(corrupt_images(map(map_to_own_size, images, x) if as_maps else images, threat, rng, x.device))
        if as_maps:
            return torch.stack(out)
        # In the memory layout of x, on which the rounding of convolutions depends
        layout = torch.channels_last if x.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format
        return self._together(places, out).to(x.device).contiguous(memory_format=layout)

    def _own_images(self, places: Sequence[int]) -> Iterator[OwnImage]:
        """Yield images at their own size; those that follow themselves are read once."""
        # Draws of one image follow each other, and its picture is decoded once for all
        runs = [(place, len(list(several))) for place, several in itertools.groupby(places)]
        for at in range(0, len(runs), SLICE):
            several = runs[at : at + SLICE]
            read = self._threads.map(self._own, [place for place, _ in several])
            for own, (_, times) in zip(read, several, strict=True):
                yield from itertools.repeat(own, times)

    def _own(self, place: int) -> OwnImage:
        with one_large_at_a_time():
            return own_image(self._choice.read(int(self._choice.rows[place])), self.conversion, self.geometry)

    def _together(self, places: Sequence[int], pixels: Sequence[Pixels]) -> Images:
        for place, image in zip(places, pixels, strict=True):
            if tuple(image.shape) != self.shape:
                option = f"?size={min(USUAL, *self.shape[1:])}" if image.shape[0] == self.shape[0] else "?channels=3"
                raise Mismatch(
                    f"image {self.ids[place]!r}: expected {_times(self.shape)} as in {self.ids[0]!r}, "
                    f"got {_times(image.shape)}; add {option} to the data spec to give all images one shape"
                )
        return torch.stack(list(pixels))

    def batches(self, size: int) -> Iterator[Images]:
        """Yield all images in order, `size` at a time."""
        for start in range(0, len(self), size):
            yield self.batch(start, min(start + size, len(self)))

    def _pieces(self, start: int, stop: int) -> list[range]:
        """Return the places from one to another in pieces, two or more for each thread where they suffice."""
        # Two pieces for each thread even out those that take longer
        size = max(1, min(TOGETHER, (stop - start) // (2 * self._threads.count)))
        return [range(at, min(at + size, stop)) for at in range(start, stop, size)]

    def _submit(self, places: range) -> "Future[list[Pixels]]":
        # What was read ahead is taken, anything else begun
        return self._ahead.pop(places, None) or self._threads.submit(self._read, places)

    def _read(self, places: Sequence[int]) -> list[Pixels]:
        """Return the pixels of some images, which are read together where their source gives them so."""
        rows = dict(zip(places, self._choice.rows[list(places)].tolist(), strict=True))
        # Kept ones first, then the others together
        kept = {place: pixels for place in rows if (pixels := self._kept.get(self.geometry, rows[place])) is not None}
        missing = [place for place in rows if place not in kept]
        images = self._choice.together([rows[place] for place in missing]) if missing else []
        if images is None:
            read = map(self._render, missing)
        else:
            read = (self._fit(place, image) for place, image in zip(missing, images, strict=True))
        kept |= dict(zip(missing, read, strict=True))
        return [kept[place] for place in places]

    def _render(self, place: int) -> Pixels:
        with one_large_at_a_time():
            return self._fit(place, self._choice.read(int(self._choice.rows[place])))

    def _fit(self, place: int, image: PIL.Image.Image | Tensor) -> Pixels:
        """Return an image as the user or the encoder wants it."""
        if not self.sized:
            raise Missing(
                f"{self}: expected an encoder that says which images it takes, got one that does not; give their "
                "shape, --data 'gaussian?shape=3x32x32', or images of your own"
            )
        try:
            if isinstance(image, PIL.Image.Image):
                pixels = fit(image, self.conversion, self.geometry)
                self._kept.put(self.geometry, int(self._choice.rows[place]), pixels)
                return pixels
            # Pixels of arrays are not kept: to read them again is as cheap
            return convert(image, self.conversion, self.geometry)
        except HoldfastError as error:
            raise error.retell(f"image {self.ids[place]!r}: {error}") from error


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(str(side) for side in shape)
