"""Near-duplicates: images that show the same picture, which no encoder can be expected to tell apart."""

import itertools
from collections import defaultdict

import numpy as np
import PIL.Image
from jaxtyping import Int, UInt8
from torch import Tensor

SIDE = 16
"""Height and width of a thumbnail."""

ALIKE = 3
"""Grey levels of 255 by which no cell of two thumbnails of one picture differs more."""

REACH = ALIKE * (SIDE // 2) ** 2
"""The most by which sums of the cells of a quarter differ between two thumbnails of one picture."""

WIDTH = 2 * REACH
"""Side of the boxes in which thumbnails are looked for by these sums: all within reach are in two of them at most."""

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
    farther apart. Neither an encoder nor a label is asked. Sums of quarters, which cannot differ more than their cells
    do together, are kept in a grid whose boxes are as wide as two that look alike may be apart on both sides: each
    image is compared with those in at most 2⁴ boxes, however many there are.
    """

    def __init__(self) -> None:
        self._thumbnails = np.empty((0, SIDE * SIDE), np.uint8)
        self._quarters = np.empty((0, 4), np.int32)
        self._boxes: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        self._count = 0

    def add(self, image: Thumbnail) -> None:
        """Take up another image."""
        if self._count == len(self._thumbnails):  # room for twice as many
            more = max(64, self._count)
            self._thumbnails = np.concatenate([self._thumbnails, np.zeros((more, SIDE * SIDE), np.uint8)])
            self._quarters = np.concatenate([self._quarters, np.zeros((more, 4), np.int32)])
        self._thumbnails[self._count] = image
        self._quarters[self._count] = sums = _quarters(image)
        self._boxes[tuple((sums // WIDTH).tolist())].append(self._count)
        self._count += 1

    def match(self, image: Thumbnail) -> tuple[int, int] | None:
        """Return (number, grey levels) of the image that this one looks like most; None where there is none."""
        sums = _quarters(image)
        ends = zip((sums - REACH) // WIDTH, (sums + REACH) // WIDTH, strict=True)
        boxes = itertools.product(*({int(low), int(high)} for low, high in ends))
        numbers = np.array([number for box in boxes for number in self._boxes.get(box, ())], np.int64)
        near = np.sort(numbers[np.abs(self._quarters[numbers] - sums).max(1, initial=0) <= REACH])
        if not len(near):
            return None
        apart = np.abs(self._thumbnails[near].astype(np.int16) - image.astype(np.int16)).max(1)
        least = int(apart.argmin())
        return (int(near[least]), int(apart[least])) if apart[least] <= ALIKE else None


def _quarters(image: Thumbnail) -> Int[np.ndarray, "4"]:
    """Return the sums of the cells of each quarter."""
    half = SIDE // 2
    return image.reshape(2, half, 2, half).sum((1, 3), dtype=np.int32).ravel()
