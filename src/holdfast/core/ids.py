"""The ids of images: texts in one array, for there may be millions."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import SupportsIndex, overload

import numpy as np

_BLOCK = 2**14
"""Texts that are encoded, or decoded, at a time."""


class Ids(Sequence[str]):
    """Texts that are read like a list, but kept in UTF-8, one after the other: their bytes, and where each ends.

    A list of a million texts of seven letters takes 61 MiB, this 11. A slice is a view of the same bytes. Equal to
    lists and tuples of the same texts; cannot be changed.

    Args:
        texts: the texts, each of which UTF-8 can write.

    Example:
        >>> ids = Ids(["a", "", "ä", "b"])
        >>> ids[2], ids[1:], ids[:2] == ["a", ""], len(ids)
        ('ä', Ids(['', 'ä', 'b']), True, 4)
    """

    __slots__ = ("_bytes", "_ends")

    def __init__(self, texts: Iterable[str] = ()):
        blocks, ends, rest = [], [np.zeros(1, np.int64)], iter(texts)
        # In blocks: all texts as objects at once would take the memory that is spared here
        while some := [text.encode() for text in islice(rest, _BLOCK)]:
            blocks.append(b"".join(some))
            # Ends go on from those of the block before
            ends.append(ends[-1][-1] + np.cumsum([len(text) for text in some]))
        self._bytes = b"".join(blocks)
        # Short ends for few bytes
        self._ends = np.concatenate(ends).astype(np.min_scalar_type(len(self._bytes)))

    def encode(self) -> tuple[memoryview, np.ndarray]:
        r"""Return the bytes of all texts, and where each ends in them, after a 0.

        Example:
            >>> part, ends = Ids(["a", "ä", "b"])[1:].encode()
            >>> bytes(part), ends.tolist()
            (b'\xc3\xa4b', [0, 2, 3])
        """
        return memoryview(self._bytes)[self._ends[0] : self._ends[-1]], self._ends - self._ends[0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> "Ids": ...

    def __getitem__(self, place: SupportsIndex | slice) -> "str | Ids":
        if not isinstance(place, slice):
            at = range(len(self))[place]  # counts from the end, and refuses what is beyond
            return self._bytes[self._ends[at] : self._ends[at + 1]].decode()
        start, stop, step = place.indices(len(self))
        if step != 1:
            return Ids(self[at] for at in range(start, stop, step))  # rare, so it copies
        part = Ids.__new__(Ids)
        # One end more than texts, which tells where the first begins
        part._bytes, part._ends = self._bytes, self._ends[start : max(start, stop) + 1]
        return part

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            ends = self._ends[start : start + _BLOCK + 1].tolist()
            yield from (self._bytes[begin:end].decode() for begin, end in pairwise(ends))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(own == text for own, text in zip(self, other, strict=True))

    __hash__ = None  # pyright: ignore[reportAssignmentType] as that of a list

    def __repr__(self) -> str:
        return f"Ids({list(self)})"
