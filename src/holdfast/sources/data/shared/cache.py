"""Pictures that were decoded and fitted before: kept as long as there is room, so small data sets are decoded once."""

import threading
from collections.abc import Hashable

import torch
from torch import Tensor

from holdfast.sources.data.shared.geometry import Pixels

LIMIT = 2**30
"""Bytes of kept pixels: 7,000 ordinary pictures at 224 x 224."""


class Kept:
    """Pixels by geometry and image, of at most so many bytes; what does not fit is decoded again.

    An audit goes through the same images again and again, so those that came first stay: throwing out the oldest would
    throw out each one just before its turn. Room for a new geometry is made at the cost of others: encoders come one
    after the other. Pixels that are whole 255ths, as all 8-bit pictures have, are kept as bytes, which loses nothing.

    Args:
        limit: bytes at most; 0 keeps nothing.
    """

    def __init__(self, limit: int = LIMIT):
        self._limit, self._bytes = limit, 0
        self._pixels: dict[Hashable, dict[int, Tensor]] = {}
        self._lock = threading.Lock()

    def get(self, geometry: Hashable, row: int) -> Pixels | None:
        """Return the pixels of an image, to the bit and to be read only; None where they are not kept."""
        pixels = self._pixels.get(geometry, {}).get(row)
        if pixels is None:
            return None
        return pixels.to(torch.float32).div(255) if pixels.dtype == torch.uint8 else pixels

    def put(self, geometry: Hashable, row: int, pixels: Pixels) -> None:
        """Keep the pixels of an image if there is room."""
        if self._limit <= 0:
            return
        # Whole 255ths come back to the bit; anything else is seen by the comparison
        small = pixels.mul(255).round_().to(torch.uint8)
        lossless = pixels.dtype == torch.float32 and torch.equal(small.to(torch.float32).div(255), pixels)
        stored = small if lossless else pixels.clone()  # the caller may change its own
        with self._lock:
            size = stored.nbytes
            # Geometries of other encoders go first; if none is left, the new pixels are not kept
            while self._bytes + size > self._limit and self._drop(geometry):
                pass
            kept = self._pixels.setdefault(geometry, {})
            if self._bytes + size <= self._limit and row not in kept:
                kept[row] = stored
                self._bytes += size

    def _drop(self, current: Hashable) -> bool:
        """Forget another geometry; return whether there was one."""
        for geometry in self._pixels:  # it changes only on its way out
            if geometry != current:
                self._bytes -= sum(pixels.nbytes for pixels in self._pixels.pop(geometry).values())
                return True
        return False
