"""Near-duplicates: images that show the same picture, which no encoder can be expected to tell apart."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Int, UInt8, UInt32

from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk
from holdfast.sources.data.shared.thumbnails import SIDE

ALIKE = 3
"""Grey levels of 255 by which no cell of two thumbnails of one picture differs more."""

_REACH = ALIKE * (SIDE // 2) ** 2
"""By how much the sums of quarters of two thumbnails of one picture differ at most."""

_WIDTH = 2 * _REACH
"""Of a bucket of sums: what an image can look like then lies in two of them for each quarter."""

_MIDDLE, _MIDDLE_REACH = slice(SIDE // 2 - 2, SIDE // 2 + 2), ALIKE * 4 * 4
"""Rows and columns of the cells in the middle, by whose sum images of a bucket are sorted; by how much sums differ."""

_PLACES = np.array([2**18, 2**12, 2**6, 1])
"""Of the four numbers of a bucket, each from 0 to 43, in one number."""

_SPREAD = 2**13
"""More than a sum of the middle, with its reach on both sides, can be."""

_SKETCH = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)[2::4, 2::4].reshape(-1)
"""Cells that are kept in memory; all others are read only where two images agree in these."""

_MOST = 2**18
"""Pairs that are compared at a time."""

Thumbnails = UInt8[np.ndarray, "n 256"]
Pairs = tuple[Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"], Int[np.ndarray, "pairs"]]


def equal_pairs(digests: Sequence[bytes], first: Sequence[bool]) -> list[tuple[int, int]]:
    """Return the places of all pairs with one content, of which the first is `first` and the second is not.

    Example:
        >>> equal_pairs([b"a", b"b", b"a", b"a"], first=[True, True, False, False])
        [(0, 2), (0, 3)]
    """
    others: dict[bytes, list[int]] = {}
    for place, digest in enumerate(digests):
        if not first[place]:
            others.setdefault(digest, []).append(place)
    return [(place, other) for place, digest in enumerate(digests) if first[place] for other in others.get(digest, ())]


class LookAlikes:
    """Images, and which of them a further image looks like: max |t - t'| <= 3 of 255 grey levels of thumbnails.

    Saving as JPEG, resizing, or a grey level more or less leave thumbnails so near; two photographs of one thing are
    farther apart. Neither an encoder nor a label is asked. Images lie in buckets by the sums of their quarters, sorted
    by the sum of their middle, so that each is compared with few instead of with all. Thumbnails are on disk; in memory
    are 32 bytes for each of `capacity` images.

    Args:
        capacity: how many images are taken up at most: arrays that grew would leave holes in memory.

    Example:
        >>> known = LookAlikes(3)
        >>> known.take(np.array([[7] * 256, [9] * 256, [20] * 256], np.uint8))
        [None, (0, 2), None]
    """

    def __init__(self, capacity: int) -> None:
        self.count = 0
        self._rows = rows = RowsOnDisk(SIDE * SIDE)
        self._numbers = np.empty(capacity, np.uint32)
        self._known = _Buckets(capacity, lambda entries: rows.read()[entries])  # no cycle: it ends at once

    def take(self, images: Thumbnails, leave_out: bool = False) -> list[tuple[int, int] | None]:
        """Take up images; return (number, grey levels) of the earlier one that each looks like most, None without one.

        Args:
            images: their thumbnails; each is compared with those before it, too.
            leave_out: do not take up, and give no number to, what looks like another.
        """
        # Of those that are known the nearest, of several the first
        own, entries, levels = self._known.near(images)
        # Sorted by image, level, number: the first row of each image is its nearest
        numbers = self._numbers[entries].astype(np.int64)
        order = np.lexsort((numbers, levels, own))
        kept = order[np.flatnonzero(np.diff(own[order], prepend=-1))]
        nearest = {
            place: (level, number) for place, level, number in np.stack([own, levels, numbers], 1)[kept].tolist()
        }

        # Among themselves
        twins: dict[int, list[tuple[int, int]]] = defaultdict(list)
        block = _Buckets(len(images), lambda entries: images[entries])
        block.add(images)
        among = block.near(images)
        # Earlier ones only, and not itself
        for own_place, other, level in np.stack(among, 1)[among[1] < among[0]].tolist():
            twins[own_place].append((level, other))

        # One after the other: what is left out is nobody's twin; a copy's twins are those of the first
        given, new, alike = [-1] * len(images), list[int](), list[tuple[int, int] | None]()
        for place in range(len(images)):
            best = nearest.get(place)
            if place in twins:
                # By the number of an earlier one that was taken up, -1 where it was left out
                near = [(level, given[other]) for level, other in twins[place] if given[other] >= 0]
                best = min(near if best is None else [best, *near], default=None)
            alike.append(None if best is None else (best[1], best[0]))
            if best is None or not leave_out:
                given[place] = self.count
                self.count += 1
                # The thumbnail of an exact copy is there already
                if best is None or best[0] > 0:
                    new.append(place)
        self._numbers[len(self._rows) : len(self._rows) + len(new)] = np.array(given)[new]
        self._rows.add(images[new].tobytes())
        self._known.add(images[new])
        return alike


class _Buckets:
    """Thumbnails, and which of them are near to others.

    Args:
        capacity: how many they are at most.
        read: returns some of them, by their places.
    """

    def __init__(self, capacity: int, read: Callable[[Int[np.ndarray, "pairs"]], Thumbnails]):
        self._read, self._count = read, 0
        self._all_keys, self._all_entries = np.empty(capacity, np.int64), np.empty(capacity, np.uint32)
        self._all_cells = np.empty((capacity, len(_SKETCH)), np.uint8)

    def add(self, images: Thumbnails) -> None:
        """Take up further ones."""
        sums = _sums(images)
        # One number that sorts by bucket, and in a bucket by the sum of the middle
        keys = (sums[:, :4] // _WIDTH + 1) @ _PLACES * _SPREAD + sums[:, 4] + _MIDDLE_REACH
        order = np.argsort(keys)
        places = np.searchsorted(self._keys, keys[order])
        count = self._count + len(images)
        # Both stay sorted, so that a bucket is a run of them
        self._all_keys[:count] = np.insert(self._keys, places, keys[order])
        self._all_entries[:count] = np.insert(self._entries, places, order + self._count)
        self._all_cells[self._count : count] = images[:, _SKETCH]
        self._count = count

    @property
    def _keys(self) -> Int[np.ndarray, "known"]:
        return self._all_keys[: self._count]

    @property
    def _entries(self) -> UInt32[np.ndarray, "known"]:
        return self._all_entries[: self._count]

    def near(self, images: Thumbnails) -> Pairs:
        """Return (place, place of a known one, grey levels) of all pairs that look alike."""
        pairs = [np.empty((3, 0), np.int64)]
        for start in range(0, len(images) if len(self._keys) else 0, 1024):
            block = images[start : start + 1024]
            for own, entries in self._candidates(_sums(block)):
                # First by the cells in memory, which rule out most pairs without the disk
                fits = np.flatnonzero(_apart(self._all_cells[entries], block[own][:, _SKETCH]) <= ALIKE)
                own, entries = own[fits], entries[fits]
                if len(own):
                    levels = _apart(self._read(entries), block[own])
                    fits = np.flatnonzero(levels <= ALIKE)
                    pairs.append(np.stack([own[fits] + start, entries[fits], levels[fits]]))
        own, entries, levels = np.concatenate(pairs, 1)
        return own, entries, levels

    def _candidates(self, sums: Int[np.ndarray, "block 5"]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pairs of an image and a known one of which no sum is too far apart, some at a time."""
        # In each bucket that a look-alike may lie in, from the first sum of the middle to the last
        # Two buckets for each of four quarters, sixteen in all
        corners = np.array(list(itertools.product((0, 1), repeat=4)))
        buckets = ((sums[:, :4] - _REACH) // _WIDTH + 1) @ _PLACES
        # In each, the first key whose middle is in reach
        starts = ((buckets[:, None] + corners @ _PLACES) * _SPREAD + sums[:, 4:]).reshape(-1)
        first = np.searchsorted(self._keys, starts)
        # Buckets in which nothing lies in reach are dropped before their runs are counted
        some = np.flatnonzero(self._keys[np.minimum(first, len(self._keys) - 1)] - starts <= 2 * _MIDDLE_REACH)
        some = some[first[some] < len(self._keys)]
        first = first[some]
        counts = np.searchsorted(self._keys, starts[some] + 2 * _MIDDLE_REACH, "right") - first
        # The pairs themselves
        totals = np.cumsum(counts)
        # In parts of about `_MOST` pairs: images that are alike in all sums may be very many
        for part in np.split(np.arange(len(some)), np.flatnonzero(np.diff(totals // _MOST)) + 1):
            number = counts[part]
            # 0, 1, 2, ... in each run, counted from its first
            inside = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
            yield np.repeat(some[part] // len(corners), number), self._entries[np.repeat(first[part], number) + inside]


def _sums(images: Thumbnails) -> Int[np.ndarray, "n 5"]:
    """Return the sums of the four quarters of thumbnails, and of their middles."""
    # Sums stay below 2^24, so float32 is exact, and its product the fastest
    return np.rint(images.astype(np.float32) @ _PARTS).astype(np.int64)


def _parts() -> np.ndarray:
    half = SIDE // 2
    parts = np.zeros((5, SIDE, SIDE), np.float32)
    for number, (rows, columns) in enumerate(itertools.product((slice(half), slice(half, SIDE)), repeat=2)):
        parts[number, rows, columns] = 1
    parts[4, _MIDDLE, _MIDDLE] = 1
    return parts.reshape(5, -1).T.copy()


_PARTS = _parts()


def _apart(a: UInt8[np.ndarray, "pairs cells"], b: UInt8[np.ndarray, "pairs cells"]) -> Int[np.ndarray, "pairs"]:
    """Return the largest difference of a cell of each pair."""
    # The larger minus the smaller: bytes have no sign
    return (np.maximum(a, b) - np.minimum(a, b)).max(1, initial=0).astype(np.int64)
