"""Which images of a source an audit uses: a permutation of its ids, what is unreadable, and a fingerprint."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import PIL.Image
import torch
from jaxtyping import UInt8
from torch import Tensor

from holdfast.core import HoldfastError, ImageSource, Relevance, Rng
from holdfast.core.ids import Ids
from holdfast.core.threat import Shape
from holdfast.runtime.errors import BadData, Conflict, Mismatch, NotEnough
from holdfast.sources.data.shared.contents import Content, Traits, contents_of, digest_of
from holdfast.sources.data.shared.duplicates import equal_pairs
from holdfast.sources.data.shared.permutation import permutation, require_utf8
from holdfast.sources.data.shared.pictures import one_large_at_a_time
from holdfast.sources.data.shared.reader import Read, Reader
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk
from holdfast.sources.data.shared.selection import DIGEST, Selection, Survey
from holdfast.sources.data.shared.survey import survey
from holdfast.sources.data.shared.threads import Threads

SAMPLE = 64
"""Pictures, the first ones in the order of an audit, by which it is judged how large pictures of mixed shapes are."""

SLICE = 8
"""Images that a thread reads before it is given more: handing over one takes as long as reading a small one."""

TOGETHER = 64
"""Images that a source is asked for at once."""

SAMPLES = 8
"""Images that are read again at the end of an audit, see `Choice.read_again`."""


class Choice:
    """Which images of a source an audit uses, shared by the geometries it is rendered in."""

    def __init__(
        self,
        source: ImageSource,
        size: int | None,
        seed: int,
        skip_corrupt: bool,
        threads: Threads,
        skip_duplicates: bool = False,
        queries: int | None = None,
    ):
        self.source, self.reader = source, Reader(source)
        self.notes = tuple(require_utf8(line, self.reader.name) for line in source.notes)
        if self.reader.count < 2:
            raise NotEnough(
                f"expected at least 2 images, got {self.reader.count} in {self.reader}; an audit compares images with "
                "each other"
            )
        if source.relevance is not None and (skip_corrupt or skip_duplicates):
            option = "skip_corrupt" if skip_corrupt else "skip_duplicates"
            raise Conflict(
                f"{self.reader}: expected all images of a retrieval task, got {option}, which would make it another "
                "task; leave that out, and repair what cannot be read"
            )
        self._skip_corrupt, self.skip_duplicates = skip_corrupt, skip_duplicates
        self._threads = threads
        self.copies: list[tuple[str, str, int]] | None = None  # beyond those of `duplicates`, once they were looked for
        # From here on: what was read and found, by row
        self._noting = False
        self._noted: dict[int, Content] = {}  # of images that were read, by row
        self._number = dict(enumerate(range(len(source.classes))))  # of each class of the source
        self.classes = tuple(require_utf8(name, self.reader.name) for name in source.classes)
        self._order = permutation(self.reader, Rng(seed).child("images"))
        if source.relevance is not None:
            # Queries, what is relevant to them, and the rest, each in the order of the permutation
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
        return None if self._skip_corrupt or self.skip_duplicates else self.reader.files(self.rows.tolist())

    @cached_property
    def ids(self) -> Ids:
        """The ids of the chosen images, in the order of the audit."""
        return Ids(self.reader.id(int(row)) for row in self.rows)

    @cached_property
    def labels(self) -> list[int] | None:
        """The classes of the chosen images; None unless the source knows them all."""
        own, _ = self._labels
        known = [self._number.get(label, label) for label in own if label is not None]
        return known if len(known) == len(self.rows) else None

    @property
    def label_coverage(self) -> tuple[int, str]:
        """How many of the chosen images have a label, and why none is read where one of them is no class."""
        own, problem = self._labels
        return len(own) - own.count(None), problem

    @property
    def _may_be_labelled(self) -> bool:
        """Whether any of the first images has a label, and none of them what is no class."""
        try:
            return any(self.reader.label(row) is not None for row in self.rows[:SAMPLE].tolist())
        except HoldfastError:
            return False

    @cached_property
    def _labels(self) -> tuple[list[int | None], str]:
        """The labels as the source has them; none where the first ones say that it has none, or one is no class."""
        own: list[int | None] = []
        try:
            for row in map(int, self.rows):  # a list of a million takes 40 MiB
                own.append(self.reader.label(row))
                # After so many without a label it takes the source to have none, and reads no further
                if len(own) == SAMPLE and own.count(None) == SAMPLE:
                    return [], ""
        except HoldfastError as error:  # which whoever needs labels is told
            return [], str(error)
        return own, ""

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
            raise BadData(
                f"{self.reader}: expected labels from 0 to {len(self.classes) - 1}, one for each of its named classes, "
                f"got {beyond[:5]}"
            )
        names = {self.classes[label] for label in used}
        twice = sorted(name for own in (self.classes, classes) for name in names if own.count(name) > 1)
        if twice:
            raise BadData(
                f"{self.reader}: classes are matched with those of {reference} by their names, and several are called "
                f"{', '.join(dict.fromkeys(twice))}; give them different names, or the same list of classes to both"
            )
        if strange := sorted(names - set(classes)):
            raise Mismatch(
                f"{self.reader}: expected classes that {reference} has too, {', '.join(classes[:10])}; got "
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
        # Two are asked, for one may be unreadable
        if self._shape(rows[0]) is None and self._shape(rows[1]) is None:
            return []
        return [shape for shape in self._threads.map(self._shape, rows) if shape is not None]

    @property
    def has_mixed_sizes(self) -> bool:
        """Whether pictures have several sizes, as far as is known: all of them once they were read."""
        known = self.__dict__.get("_survey")
        return len({shape[1:] for shape in self.sample}) > 1 or (known is not None and known.mixed)

    def _shape(self, row: int) -> Shape | None:
        try:
            with one_large_at_a_time():
                return self.reader.shape(row)
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
        # Digests as bytes of 32, so that equal contents are found by a dictionary
        return equal_pairs(self.digests.view("V32")[:, 0].tolist(), self.source.relevance.queries[self.rows].tolist())

    @property
    def unreadable(self) -> list[tuple[str, str]]:
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
        # Fixed texts of 32 bytes, which NumPy can look up
        own, others = (np.frombuffer(choice.digests, f"S{DIGEST}") for choice in (self, other))
        return self._keep(~np.isin(own, others))

    def leave_out_copies(self, copies: list[tuple[str, str, int]]) -> None:
        """Leave out images that show the picture of another one, (id, its id, grey levels); one may remain."""
        names = {image for image, _, _ in copies}
        self._keep(np.array([name not in names for name in self.ids]))
        self._survey.duplicates.extend(copies)

    def leave_out_unlabelled(self) -> int:
        """Leave out the images without a label, where others have one; return how many. Fewer than two may remain."""
        if self.source.relevance is not None or not self._may_be_labelled:
            return 0
        _ = self._survey  # sources that read an image for its label have then read it
        if not self.label_coverage[0]:
            return 0
        return self._keep(np.array([label is not None for label in self._labels[0]]))

    def _keep(self, kept: np.ndarray) -> int:
        """Leave out the images of which this says so; return how many they were."""
        if kept.all():
            return 0
        before, digests = self._survey, RowsOnDisk(DIGEST)
        digests.add(self.digests[kept].tobytes())
        # Whatever was made of the rows before
        self._forget("ids", "labels", "relevance", "fingerprint", "samples", "traits", "_labels", "_own")
        self._survey = replace(before, rows=before.rows[kept], digests=digests, trait_of=before.trait_of[kept])
        self.rows = self._survey.rows
        return int((~kept).sum())

    def _forget(self, *names: str) -> None:
        """Forget what is cached of other rows."""
        for name in names:
            self.__dict__.pop(name, None)

    @property
    def selection(self) -> Selection:
        """What reading all images tells."""
        read = (
            self.fingerprint,
            self.unreadable,
            self.duplicates,
            self.has_mixed_sizes,
            self._own,
            self.traits,
            self.samples,
        )
        return Selection(self.reader.count, self.rows, *read, copies=self.copies or [])

    def recall(self, memory: Selection) -> None:
        """Take over what another process found out about the same images.

        Raises:
            HoldfastError: a source of another size: files came or went meanwhile.
        """
        if self.reader.count != memory.available:
            raise Mismatch(
                f"{self.reader}: expected {memory.available} images as when the audit began, got {self.reader.count}; "
                "give every worker the same images"
            )
        self._forget("ids", "labels", "relevance", "_labels")
        self._survey = Survey(memory.rows, RowsOnDisk(DIGEST), memory.skipped, memory.duplicates, memory.mixed)
        self.rows, self.fingerprint, self._own = memory.rows, memory.fingerprint, memory.own
        self.traits, self.samples, self.copies = memory.traits, memory.samples, memory.copies

    @property
    def digests(self) -> UInt8[np.ndarray, "images 32"]:
        """SHA-256 of the decoded content of each chosen image."""
        return self._survey.digests.read()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the sorted (id, content) of the chosen images, and of what is relevant in a retrieval task."""
        sha256 = hashlib.sha256()
        names = list(self.ids)
        # 32 bytes each, without an object for every image
        contents = self.digests.reshape(-1).data
        # In the order of ids: the same images in another order have one fingerprint
        for place in sorted(range(len(names)), key=names.__getitem__):
            sha256.update(f"{names[place]!r} {contents[32 * place : 32 * place + 32].hex()}\n".encode())
        if self.source.relevance is not None:
            sha256.update(self.source.relevance.fingerprint(self._survey.rows.tolist(), self.reader.id).encode())
        return sha256.hexdigest()

    @cached_property
    def _survey(self) -> Survey:
        """Read images in the order of the permutation until enough are good."""
        return survey(self.reader, self._order, self._size, self._outcomes, self.skip_duplicates)

    def _outcomes(self, rows: list[int]) -> Iterator[Content | HoldfastError]:
        """Yield what reading each of some images comes to, see `_try`; the pool reads them."""
        # Slices, for sources that read several together
        slices = [rows[at : at + TOGETHER] for at in range(0, len(rows), TOGETHER)]
        return itertools.chain.from_iterable(self._threads.map(self._contents, slices))

    def _contents(self, rows: Sequence[int]) -> Sequence[Content | HoldfastError]:
        """Return what `_try` does of several images; together where their source gives them so and all are good."""
        # One by one where images may be noted, which need no second reading
        given = None if self._noting else self.reader.together(rows)
        if given is None:
            return [self._try(row) for row in rows]
        if isinstance(given, Tensor):
            return contents_of(given)
        for row, read in zip(rows, given, strict=True):
            self.reader.check_range(row, read)
        return [_content(read) for read in given]

    def together(self, rows: Sequence[int]) -> Sequence[PIL.Image.Image | Tensor] | None:
        """Return several images as `read` does; None where they are not given together, or not all of them are good."""
        # While it takes notes, images pass one by one through `read`, which takes them
        given = None if self._noting else self.reader.together(rows)
        if given is None or isinstance(given, Tensor):
            return None if given is None else list(given)
        for row, read in zip(rows, given, strict=True):
            self.reader.check_range(row, read)
        return [read.image for read in given]

    def _try(self, row: int) -> Content | HoldfastError:
        """Return the content of one image, or why it cannot be read where such images may be skipped."""
        if row in self._noted:
            return self._noted[row]
        with one_large_at_a_time():
            if not self._skip_corrupt:
                return _content(self._read(row))
            # Only what cannot be read may be skipped: pixels outside [0, 1] are a mistake in the data
            try:
                read = self.reader.load(row)
            except HoldfastError as error:
                return error
            self.reader.check_range(row, read)
            return _content(read)

    def read(self, row: int) -> PIL.Image.Image | Tensor:
        """Return one image as a `standard` picture or as pixels in [0, 1].

        Raises:
            HoldfastError: an image that cannot be read, or is not in [0, 1], by its id.
        """
        read = self._read(row)
        if self._noting and row not in self._noted:
            self._noted[row] = _content(read)
        return read.image

    def _read(self, row: int) -> Read:
        try:
            read = self.reader.load(row)
        except HoldfastError as error:
            raise error.retell(
                f"{error}; --skip-corrupt (in Python skip_corrupt=True) leaves unreadable files out"
            ) from error
        self.reader.check_range(row, read)
        return read

    @cached_property
    def traits(self) -> Counter[Traits]:
        """How many of the chosen images have which traits; reads all of them once."""
        counts = np.bincount(self._survey.trait_of, minlength=len(self._survey.traits)).tolist()
        return Counter({trait: count for trait, count in zip(self._survey.traits, counts, strict=True) if count})

    @cached_property
    def samples(self) -> list[tuple[int, bytes]]:
        """Some places from the first to the last, and the digests of the images there; reads all images once."""
        last, digests = len(self.rows) - 1, self.digests
        # Evenly from the first to the last; few images give few places
        places = dict.fromkeys(round(last * number / (SAMPLES - 1)) for number in range(SAMPLES))
        return [(place, digests[place].tobytes()) for place in places]

    def read_again(self) -> list[tuple[str, str]]:
        """Read `samples` twice, and return the (id, how) of each: how it differs from before; "": it is the same."""
        return [(self.reader.id(int(self.rows[place])), self._change(place, digest)) for place, digest in self.samples]

    def _change(self, place: int, digest: bytes) -> str:
        """Return how the image at a place differs from one of this digest; "" where it is the same, twice."""
        try:
            with one_large_at_a_time():
                # Twice: a source that draws anew gives another image each time
                again = [digest_of(self.reader.load(int(self.rows[place])).image) for _ in range(2)]
        except HoldfastError as error:
            return str(error)
        if again == [digest, digest]:
            return ""
        return "it is another image now" if again[0] == again[1] else "it is another image each time"


def _content(read: Read) -> Content:
    return Content.of(read.image, read.peculiarities)
