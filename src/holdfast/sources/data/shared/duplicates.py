"""Near-duplicates: images that show the same picture, which no encoder can be expected to tell apart."""

import itertools
from array import array
from collections import defaultdict

import numpy as np
import PIL.Image
from jaxtyping import Int, UInt8
from torch import Tensor

SIDE = 16
"""Height and width of a thumbnail."""

ALIKE = 3
"""Grey levels of 255 by which no cell of two thumbnails of one picture differs more."""

QUARTERS = (slice(0, SIDE // 2), slice(SIDE // 2, SIDE))

_REACH = ALIKE * (SIDE // 2) ** 2
"""By how much the sums of quarters of two thumbnails of one picture differ at most."""

_WIDTH = 2 * _REACH
"""Of a bucket of sums: what an image can look like then lies in two of them, or one, for each quarter."""

Thumbnail = UInt8[np.ndarray, "256"]


def thumbnail(image: PIL.Image.Image | Tensor) -> Thumbnail:
    """Return the mean grey of the image in each cell of a grid of 16 by 16, in levels of 255.

    Args:
        image: a picture of mode L, RGB or F, or pixels in [0, 1], [C, H, W].
    """
    if isinstance(image, Tensor):
        image = PIL.Image.fromarray(image.mean(0).numpy())
    if image.mode == "F":
        small = np.asarray(image.resize((SIDE, SIDE), PIL.Image.Resampling.BOX)) * 255
    else:
        small = np.asarray(image.resize((SIDE, SIDE), PIL.Image.Resampling.BOX, reducing_gap=2).convert("L"))
    return small.round().clip(0, 255).astype(np.uint8).reshape(-1)


class LookAlikes:
    """Thumbnails of images, and which of them a further image looks like: max |t - t'| <= 3 of 255 grey levels.

    Saving as JPEG, resizing, or a grey level more or less leave thumbnails so near; two photographs of one thing are
    farther apart. Neither an encoder nor a label is asked. Images lie in buckets by the sums of their quarters, so that
    each is compared with those in 16 buckets at most instead of with all.
    """

    def __init__(self) -> None:
        self._thumbnails = np.empty((0, SIDE * SIDE), np.uint8)
        self._sums = np.empty((0, 4), np.int16)
        self._buckets: dict[tuple[int, ...], array[int]] = defaultdict(lambda: array("q"))
        self._count = 0

    def add(self, image: Thumbnail) -> None:
        """Take up another image."""
        if self._count == len(self._thumbnails):  # room for a half more
            more = max(64, self._count // 2)
            self._thumbnails = np.concatenate([self._thumbnails, np.zeros((more, SIDE * SIDE), np.uint8)])
            self._sums = np.concatenate([self._sums, np.zeros((more, 4), np.int16)])
        sums = _quarters(image)
        self._thumbnails[self._count], self._sums[self._count] = image, sums
        self._buckets[tuple(total // _WIDTH for total in sums)].append(self._count)
        self._count += 1

    def match(self, image: Thumbnail) -> tuple[int, int] | None:
        """Return (number, grey levels) of the image that this one looks like most; None where there is none."""
        sums = _quarters(image)
        spans = (range((total - _REACH) // _WIDTH, (total + _REACH) // _WIDTH + 1) for total in sums)
        places = [place for place in itertools.product(*spans) if place in self._buckets]
        if not places:
            return None
        numbers: Int[np.ndarray, "bucket"] = np.concatenate([np.frombuffer(self._buckets[p], np.int64) for p in places])
        numbers = numbers[np.abs(self._sums[numbers] - np.array(sums, np.int16)).max(1) <= _REACH]
        if not len(numbers):
            return None
        numbers.sort()  # of several that are as near, the first
        apart = np.abs(self._thumbnails[numbers].astype(np.int16) - image.astype(np.int16)).max(1)
        least = int(apart.argmin())
        return (int(numbers[least]), int(apart[least])) if apart[least] <= ALIKE else None


def _quarters(image: Thumbnail) -> list[int]:
    grid = image.reshape(SIDE, SIDE)
    return [int(grid[rows, columns].sum()) for rows in QUARTERS for columns in QUARTERS]
