"""The one place where a source of images is called: in turn unless it says otherwise; what it gives is checked."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.ExifTags
import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import HoldfastError, ImageSource
from holdfast.core.threat import Shape
from holdfast.runtime.errors import BadData, NotFinite
from holdfast.runtime.foreign import foreign
from holdfast.sources.data.shared.geometry import standard
from holdfast.sources.data.shared.labels import class_number
from holdfast.sources.data.shared.peculiar import KEY, peculiarities
from holdfast.sources.data.shared.range import check_range

Image = PIL.Image.Image | Tensor
"""A `standard` picture, or pixels."""

ORIENTATION = PIL.ExifTags.Base.Orientation


class Read(NamedTuple):
    """An image that was read.

    Attributes:
        image: a `standard` picture, or pixels as float32, in this process's memory.
        ends: its lowest and highest value where these could be out of range.
        peculiarities: of a picture, see `peculiarities`.
    """

    image: Image
    ends: tuple[float, float] | None
    peculiarities: tuple[str, ...]


class Reader:
    """A source as its images are read.

    One that is not `concurrent` is called by one thread at a time, see `Turn`, and what it hands out is copied before
    the next call: its owner may use a tensor or a picture again. Decoded and converted is it outside, side by side.

    Args:
        source: where the images come from.

    Attributes:
        count: how many images there are.
        name: what the source is called.
    """

    def __init__(self, source: ImageSource):
        self._source, self._alone = source, not source.concurrent
        with self._calling("the source of images", "opened"):
            self.count, self.name = len(source), str(source)

    def __str__(self) -> str:
        return self.name

    def _calling(self, what: str, doing: str) -> Any:
        # A source that is made for threads is called as it is: in no turn, and with its own errors
        return foreign(what, doing, wrap=self._alone, alone=self._alone)

    def id(self, row: int) -> str:
        """Return the name of an image."""
        if not self._alone:
            return self._source.id(row)
        with self._calling(f"{self.name}, the name of image {row}", "asked for"):
            return self._source.id(row)

    def files(self, rows: Sequence[int]) -> Sequence[Path] | None:
        """Return the files that some images are read from, see `ImageSource.files`."""
        with self._calling(f"{self.name}, its files", "asked for"):
            return self._source.files(rows)

    def label(self, row: int) -> int | None:
        """Return the class of an image; None where it has none.

        Raises:
            HoldfastError: what is no class.
        """
        if not self._alone:
            return self._source.label(row)
        with self._calling(f"{self.name}, the class of image {row}", "asked for"):
            value = self._source.label(row)
        return class_number(value, f"{self.name}, image {self.id(row)!r}")

    def shape(self, row: int) -> Shape | None:
        """Return (channels, height, width) of a picture; None of pixels."""
        with self._calling(f"{self.name}, the shape of image {row}", "asked for"):
            shape = self._source.shape(row)
        if shape is None:
            return None
        channels, height, width = map(int, shape)
        return channels, height, width

    def load(self, row: int) -> Read:
        """Return an image.

        Raises:
            HoldfastError: one that cannot be read, or is no image.
        """
        with self._calling(f"{self.name}, image {self.id(row)!r}", "read"):
            given = self._source.load(row)
            # Before the turn is given back: its owner may write into it next
            if self._alone:
                given = copy_picture(given)
        return self._read(row, given)

    def _read(self, row: int, given: Any) -> Read:
        """Return an image that a source gave."""
        name = self.id(row)
        if isinstance(given, Tensor):
            if given.ndim != 3 or given.shape[0] not in (1, 3) or not given.is_floating_point():
                got = f"{given.dtype} {list(given.shape)}"
                raise BadData(f"image {name!r}: expected float pixels [1 or 3, height, width], got {got}")
            # No gradient, float32 and in the memory of this process, whatever the source computes with
            image, found = given.detach().to("cpu", torch.float32), ()
        elif isinstance(given, PIL.Image.Image):
            image, found = _standard(given, name)
        else:
            raise BadData(
                f"image {name!r}: expected a picture of Pillow or float pixels [1 or 3, height, width], got "
                f"{type(given).__name__}"
            )
        # the range of floats: later the whole set shows whether it is [0, 1]
        values = _floats(image)
        if values is None or not values.numel():
            return Read(image, None, found)
        low, high = (float(end) for end in values.aminmax())  # one pass: NaN is both, infinite is one of them
        if not (math.isfinite(low) and math.isfinite(high)):
            raise NotFinite(f"image {name!r} holds NaN or infinite pixels; repair or remove it")
        return Read(image, (low, high), found)

    def check_range(self, row: int, read: Read) -> None:
        """Raise where values leave [0, 1]; never skipped, since it is a mistake about the whole source."""
        # NaN has been refused in `_read`
        if read.ends is not None and not 0 <= read.ends[0] <= read.ends[1] <= 1:
            check_range(*read.ends, f"image {self.id(row)!r}")

    def together(self, rows: Sequence[int]) -> Float[Tensor, "n channels height width"] | list[Read] | None:
        """Return the pixels of several images, or these; None where they are not given so, or not all are good."""
        try:
            with self._calling(f"{self.name}, several images", "read"):
                given = self._source.load_several(rows)
                if self._alone:
                    given = (
                        [copy_picture(each) for each in given]
                        if isinstance(given, (list, tuple))
                        else copy_picture(given)
                    )
            if isinstance(given, (list, tuple)):
                return [self._read(row, each) for row, each in zip(rows, given, strict=True)]
        except Exception:  # one by one, so the error names the image
            return None
        return self._pixels(rows, given)

    @staticmethod
    def _pixels(rows: Sequence[int], pixels: Any) -> Float[Tensor, "n channels height width"] | None:
        """Return the pixels of several images that a source gave, if all are good."""
        if not isinstance(pixels, Tensor) or pixels.dtype != torch.float32:
            return None
        if pixels.ndim != 4 or len(pixels) != len(rows) or pixels.shape[1] not in (1, 3):
            return None
        # One pass over the pixels; NaN makes both comparisons false
        low, high = (float(end) for end in pixels.aminmax())
        return pixels.contiguous() if 0 <= low <= high <= 1 else None


def copy_picture(given: Any) -> Any:
    """Return what its owner may change meanwhile as what nobody else has: a picture, a tensor, an array, or several.

    A picture is decoded for it, and keeps what stood beside its pixels.
    """
    if isinstance(given, Tensor):
        return given.detach().to("cpu", copy=True)
    if isinstance(given, np.ndarray):
        return given.copy()
    if not isinstance(given, PIL.Image.Image):
        return given
    found = peculiarities(given)  # before it is decoded
    copy = given.copy()
    copy.info[KEY] = found
    # A copy of some formats loses the orientation, which is only applied later
    orientation = given.getexif().get(ORIENTATION, 1)
    if copy.getexif().get(ORIENTATION, 1) != orientation:
        copy.getexif()[ORIENTATION] = orientation
    return copy


def _standard(picture: PIL.Image.Image, name: str) -> tuple[PIL.Image.Image, tuple[str, ...]]:
    """Return a picture in a standard mode, and what is peculiar about it."""
    try:
        found = peculiarities(picture)
        return standard(picture), found
    except HoldfastError as error:
        raise error.retell(f"image {name!r}: {error}") from error
    except Exception as error:  # Pillow's plug-ins raise anything on broken metadata
        raise BadData(f"cannot read image {name!r} ({error}); repair or remove it") from error


def _floats(image: Image) -> Tensor | None:
    """Return the values that could be out of range; None for 8-bit pictures."""
    if isinstance(image, Tensor):
        return image
    return torch.from_numpy(np.array(image)) if image.mode == "F" else None
