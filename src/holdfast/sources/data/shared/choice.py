"""Which images of a source an audit uses: a permutation of its ids, what is unreadable, and a fingerprint."""

import hashlib
import itertools
import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from holdfast.core import HoldfastError, ImageSource, Relevance, Rng
from holdfast.core.ids import Ids
from holdfast.core.threat import Shape
from holdfast.runtime.foreign import foreign
from holdfast.sources.data.shared.contents import Content, contents_of
from holdfast.sources.data.shared.duplicates import LookAlikes, equal_pairs
from holdfast.sources.data.shared.geometry import standard
from holdfast.sources.data.shared.permutation import permutation, written
from holdfast.sources.data.shared.pictures import one_large_at_a_time
from holdfast.sources.data.shared.range import check_range
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk
from holdfast.sources.data.shared.selection import DIGEST, Selection, Survey
from holdfast.sources.data.shared.thumbnails import SIDE

_BLOCK, _LARGEST = 2**10, 2**14
"""Images that are surveyed together, or a sixteenth of those before, to take up a block costs as much as they do; at
most so many, whose contents are in memory."""

SAMPLE = 64
"""Pictures, the first ones in the order of an audit, by which it is judged how large pictures of mixed shapes are."""

SLICE = 8
"""Images that a thread reads before it is given more: handing over one takes as long as reading a small one."""

TOGETHER = 64
"""Images that a source is asked for at once."""


class Choice:
    """Which images of a source an audit uses, shared by the geometries it is rendered in."""

    def __init__(
        self,
        source: ImageSource,
        size: int | None,
        seed: int,
        skip_corrupt: bool,
        pool: ThreadPoolExecutor,
        skip_duplicates: bool = False,
        queries: int | None = None,
    ):
        if len(source) < 2:
            raise HoldfastError(
                f"expected at least 2 images, got {len(source)} in {source}; an audit compares images with each other"
            )
        if source.relevance is not None and (skip_corrupt or skip_duplicates):
            option = "skip_corrupt" if skip_corrupt else "skip_duplicates"
            raise HoldfastError(
                f"{source}: expected all images of a retrieval task, got {option}, which would make it another task; "
                "leave that out, and repair what cannot be read"
            )
        self.source = source
        self._skip_corrupt, self.skip_duplicates = skip_corrupt, skip_duplicates
        self._pool = pool
        self._noting = False
        self._noted: dict[int, Content] = {}  # of images that were read, by row
        self._number = dict(enumerate(range(len(source.classes))))  # of each class of the source
        self.classes = tuple(written(name, source) for name in source.classes)
        self._order = permutation(source, Rng(seed).child("images"))
        if source.relevance is not None:
            self._order = source.relevance.order(torch.from_numpy(self._order).long(), queries, size).numpy()
        self._size = len(self._order) if size is None else min(size, len(self._order))

    @cached_property
    def rows(self) -> np.ndarray:
        """Where the chosen images stand in the source."""
        if self._skip_corrupt or self.skip_duplicates:
            return self._survey.rows
        return self._order[: self._size]

    @property
    def files(self) -> Sequence[Path] | None:
        """The files of the chosen images; None where it takes those of others to know which are left out."""
        return None if self._skip_corrupt or self.skip_duplicates else self.source.files(self.rows.tolist())

    @cached_property
    def ids(self) -> Ids:
        """The ids of the chosen images, in the order of the audit."""
        return Ids(self.source.id(int(row)) for row in self.rows)

    @cached_property
    def labels(self) -> list[int] | None:
        """The classes of the chosen images; None unless the source knows them all."""
        labels = []
        for row in map(int, self.rows):  # a list of a million takes 40 MiB
            label = self.source.label(row)
            if label is None:
                return None
            labels.append(self._number.get(label, label))
        return labels

    def renumber(self, classes: tuple[str, ...], reference: str) -> None:
        """Give every class the number that `classes` have for its name; without names on both sides, nothing.

        Raises:
            HoldfastError: a name of a chosen image that `classes` do not have.
        """
        if not classes or not self.classes or classes == self.classes:
            return
        # only classes that occur need a name in both sets
        used = set(self.labels or [])
        if beyond := sorted(label for label in used if not 0 <= label < len(self.classes)):
            raise HoldfastError(
                f"{self.source}: expected labels from 0 to {len(self.classes) - 1}, one for each of its named classes, "
                f"got {beyond[:5]}"
            )
        names = {self.classes[label] for label in used}
        twice = sorted(name for own in (self.classes, classes) for name in names if own.count(name) > 1)
        if twice:
            raise HoldfastError(
                f"{self.source}: classes are matched with those of {reference} by their names, and several are called "
                f"{', '.join(dict.fromkeys(twice))}; give them different names, or the same list of classes to both"
            )
        if strange := sorted(names - set(classes)):
            raise HoldfastError(
                f"{self.source}: expected classes that {reference} has too, {', '.join(classes[:10])}; got "
                f"{', '.join(strange[:5])}; name the classes alike in both"
            )
        # from our numbers to theirs
        self._number = {i: classes.index(name) for i, name in enumerate(self.classes) if name in names}
        self.classes = classes
        del self.labels

    @cached_property
    def sample(self) -> list[Shape]:
        """Shapes of the first pictures in the order of the audit, whatever its size; none where they are pixels."""
        rows = self._order[:SAMPLE].tolist()
        if self._shape(rows[0]) is None and self._shape(rows[1]) is None:
            return []
        return [shape for shape in self._pool.map(self._shape, rows) if shape is not None]

    @property
    def mixed(self) -> bool:
        """Whether pictures have several sizes, as far as is known: all of them once they were read."""
        survey = self.__dict__.get("_survey")
        return len({shape[1:] for shape in self.sample}) > 1 or (survey is not None and survey.mixed)

    def _shape(self, row: int) -> Shape | None:
        try:
            with one_large_at_a_time():
                return self.source.shape(row)
        except Exception:  # what cannot be read is said, or skipped, where it is needed
            return None

    @cached_property
    def relevance(self) -> Relevance | None:
        """Which chosen images are relevant to which, by their places; None where they are no retrieval task.

        All of them are read once, for whether queries are in the corpus too.
        """
        if self.source.relevance is None:
            return None
        return replace(
            self.source.relevance.among(self.rows.tolist()), own=torch.tensor(self._own, dtype=torch.int64).view(-1, 2)
        )

    @cached_property
    def _own(self) -> list[tuple[int, int]]:
        """The places of each query of a retrieval task and of each image of its corpus that has the same content."""
        if self.source.relevance is None:
            return []
        return equal_pairs(self.digests.view("V32")[:, 0].tolist(), self.source.relevance.queries[self.rows].tolist())

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The (id, reason) of every image that was replaced."""
        return self._survey.skipped if self._skip_corrupt else []

    @property
    def duplicates(self) -> list[tuple[str, str, int]]:
        """Every image that looks like an earlier one, as (id, its id, grey levels); left out where asked for."""
        return self._survey.duplicates

    def note(self) -> None:
        """Take note of every image that is read from now on, so that none is read again for it."""
        self._noting = True

    def leave_out(self, other: "Choice") -> int:
        """Leave out the images of contents that another has; return how many they were. Fewer than two may remain."""
        survey = self._survey
        own, others = (np.frombuffer(choice.digests, f"S{DIGEST}") for choice in (self, other))
        kept = np.flatnonzero(~np.isin(own, others))
        digests = RowsOnDisk(DIGEST)
        digests.add(self.digests[kept].tobytes())
        for name in ("ids", "labels", "relevance", "fingerprint", "rows", "_own", "_survey"):
            self.__dict__.pop(name, None)  # cached
        self._survey = replace(survey, rows=survey.rows[kept], digests=digests)
        self.rows = self._survey.rows
        return len(own) - len(kept)

    @property
    def selection(self) -> Selection:
        """What reading all images tells."""
        read = (self.fingerprint, self.skipped, self.duplicates, self.mixed, self._own)
        return Selection(len(self.source), self.rows, *read)

    def recall(self, memory: Selection) -> None:
        """Take over what another process found out about the same images.

        Raises:
            HoldfastError: a source of another size: files came or went meanwhile.
        """
        if len(self.source) != memory.available:
            raise HoldfastError(
                f"{self.source}: expected {memory.available} images as when the audit began, got {len(self.source)}; "
                "give every worker the same images"
            )
        for name in ("ids", "labels", "relevance"):
            self.__dict__.pop(name, None)  # cached
        self._survey = Survey(memory.rows, RowsOnDisk(DIGEST), memory.skipped, memory.duplicates, memory.mixed)
        self.rows, self.fingerprint, self._own = memory.rows, memory.fingerprint, memory.own

    @property
    def digests(self) -> UInt8[np.ndarray, "images 32"]:
        """SHA-256 of the decoded content of each chosen image."""
        return self._survey.digests.read()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted (id, content) of the chosen images, and of what is relevant in a retrieval task."""
        sha256 = hashlib.sha256()
        survey, names = self._survey, list(self.ids)
        contents = self.digests.reshape(-1).data
        for place in sorted(range(len(names)), key=names.__getitem__):
            sha256.update(f"{names[place]!r} {contents[32 * place : 32 * place + 32].hex()}\n".encode())
        if self.source.relevance is not None:
            sha256.update(self.source.relevance.fingerprint(survey.rows.tolist(), self.source.id).encode())
        return sha256.hexdigest()

    @cached_property
    def _survey(self) -> Survey:
        """Read images in the order of the permutation until enough are good."""
        digests, known, position = RowsOnDisk(DIGEST), LookAlikes(self._size), 0
        left_out: list[int] = []  # positions in the permutation
        skipped: list[tuple[str, str]] = []
        duplicates: list[tuple[int, int, int]] = []
        sizes: set[tuple[int, ...]] = set()
        while len(digests) < self._size and position < len(self._order):
            # never more than are still needed: what is skipped does not depend on the block
            count = min(max(_BLOCK, len(digests) // 16), _LARGEST, self._size - len(digests))
            good: list[tuple[int, Content]] = []
            for outcome in self._outcomes(self._order[position : position + count].tolist()):
                if isinstance(outcome, Content):
                    good.append((position, outcome))
                    sizes.add(outcome.size)
                else:
                    left_out.append(position)
                    skipped.append((self._id(position), str(outcome)))
                position += 1
            small = np.array([content.thumbnail for _, content in good], np.uint8).reshape(-1, SIDE * SIDE)
            kept = bytearray()
            for (place, content), twin in zip(good, known.take(small, self.skip_duplicates), strict=True):
                if twin is not None:
                    duplicates.append((place, *twin))
                if twin is not None and self.skip_duplicates:
                    left_out.append(place)
                else:
                    kept += content.digest
            digests.add(kept)
        if len(digests) < 2:
            reason = f"; the first: {skipped[0][1]}" if skipped else ""
            alike = f"; {len(duplicates)} look like others and were left out" if duplicates else ""
            got = f"{len(digests)} in {self.source}{reason}{alike}"
            raise HoldfastError(f"expected at least 2 readable images, got {got}")
        rows = self._order[:position]
        rows = np.delete(rows, left_out) if left_out else rows
        named = [(self._id(place), self.source.id(int(rows[twin])), levels) for place, twin, levels in duplicates]
        return Survey(rows, digests, skipped, named, len(sizes - {()}) > 1)

    def _id(self, position: int) -> str:
        return self.source.id(int(self._order[position]))

    def _outcomes(self, rows: list[int]) -> Iterator[Content | HoldfastError]:
        """Yield what reading each of some images comes to, see `_try`; the pool reads them."""
        slices = [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]
        return itertools.chain.from_iterable(self._pool.map(self._contents, slices))

    def _contents(self, rows: Sequence[int]) -> Sequence[Content | HoldfastError]:
        """Return what `_try` does of several images; together where their source gives them so and all are good."""
        pixels = self.together(rows)
        if pixels is None:
            return [self._try(row) for row in rows]
        return contents_of(pixels)

    def together(self, rows: Sequence[int]) -> Float[Tensor, "n channels height width"] | None:
        """Return the pixels of several images; None where they are not given together, or not all of them are good."""
        if self._noting:
            return None
        try:
            pixels = self.source.load_several(rows)
        except Exception:  # one after the other it is said of which image
            return None
        if pixels is None or pixels.dtype != torch.float32 or pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            return None
        low, high = (float(end) for end in pixels.aminmax())
        return pixels.contiguous() if 0 <= low <= high <= 1 else None

    def _try(self, row: int) -> Content | HoldfastError:
        """Return the content of one image, or why it cannot be read where such images may be skipped."""
        if row in self._noted:
            return self._noted[row]
        with one_large_at_a_time():
            if not self._skip_corrupt:
                return Content.of(self.read(row))
            try:
                image, ends = self._load(row)
            except HoldfastError as error:
                return error
            self._check_range(row, ends)
            return Content.of(image)

    def read(self, row: int) -> PIL.Image.Image | Tensor:
        """Return one image as a `standard` picture or as pixels in [0, 1].

        Raises:
            HoldfastError: an image that cannot be read, or is not in [0, 1], by its id.
        """
        try:
            image, ends = self._load(row)
        except HoldfastError as error:
            raise HoldfastError(
                f"{error}; --skip-corrupt (in Python skip_corrupt=True) leaves unreadable files out"
            ) from error
        self._check_range(row, ends)
        if self._noting and row not in self._noted:
            self._noted[row] = Content.of(image)
        return image

    def _load(self, row: int) -> tuple[PIL.Image.Image | Tensor, tuple[float, float] | None]:
        """Return an image, and its lowest and highest value where these could be out of range."""
        name = self.source.id(row)
        with foreign(f"{self.source}, image {name!r}", "read"):
            image = self.source.load(row)
        # pixels in [0, 1], or a picture of a standard mode
        if isinstance(image, Tensor):
            if image.ndim != 3 or image.shape[0] not in (1, 3) or not image.is_floating_point():
                got = f"{image.dtype} {list(image.shape)}"
                raise HoldfastError(f"image {name!r}: expected float pixels [1 or 3, height, width], got {got}")
            image = image.detach().to("cpu", torch.float32)
        else:
            try:
                image = standard(image)
            except HoldfastError as error:
                raise HoldfastError(f"image {name!r}: {error}") from error
            except Exception as error:  # Pillow's plug-ins raise anything on broken metadata
                raise HoldfastError(f"cannot read image {name!r} ({error}); repair or remove it") from error
        # the range of floats: later the whole set shows whether it is [0, 1]
        values = _floats(image)
        if values is None or not values.numel():
            return image, None
        low, high = (float(end) for end in values.aminmax())  # one pass: NaN is both, infinite is one of them
        if not (math.isfinite(low) and math.isfinite(high)):
            raise HoldfastError(f"image {name!r} holds NaN or infinite pixels; repair or remove it")
        return image, (low, high)

    def _check_range(self, row: int, ends: tuple[float, float] | None) -> None:
        """Raise where values leave [0, 1]; never skipped, since it is a mistake about the whole source."""
        if ends is not None and not 0 <= ends[0] <= ends[1] <= 1:
            check_range(*ends, f"image {self.source.id(row)!r}")


def _floats(image: PIL.Image.Image | Tensor) -> Tensor | None:
    """Return the values that could be out of range; None for 8-bit pictures."""
    if isinstance(image, Tensor):
        return image
    return torch.from_numpy(np.array(image)) if image.mode == "F" else None
