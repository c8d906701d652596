"""A random order of the images of a source that depends on the seed and their ids alone."""

import numpy as np
from jaxtyping import Int

from holdfast.core import Rng
from holdfast.runtime.checked import fitting
from holdfast.runtime.errors import BadData
from holdfast.sources.data.shared.reader import Reader


def permutation(source: Reader, rng: Rng) -> Int[np.ndarray, "images"]:
    """Return all rows of a source by their numbers drawn from (seed, id); 4 bytes an image, while it is made 24.

    Args:
        source: the images.
        rng: what draws the numbers.

    Raises:
        HoldfastError: two images of one id, or one that UTF-8 cannot write.
    """
    names = (require_utf8(source.id(row), source.name) for row in range(source.count))
    numbers = np.fromiter((rng.number(name) for name in names), np.uint64, source.count)
    order = np.argsort(numbers)
    ranked = numbers[order]
    for place in np.flatnonzero(ranked[1:] == ranked[:-1]):  # equal ids have equal numbers, others hardly ever
        first, second = (source.id(row) for row in order[place : place + 2].tolist())
        if first == second:
            raise BadData(f"expected unique image ids, got {first!r} more than once in {source}; rename one")
        if first > second:
            order[[place, place + 1]] = order[[place + 1, place]]
    return order.astype(np.int32) if len(order) < 2**31 else order


def require_utf8(name: str, source: str) -> str:
    """Return the name of an image or a class of a source, if UTF-8 can write it; records, tables and digests must.

    Raises:
        HoldfastError: another one.
    """
    if isinstance(name, str) and name.isascii():  # in no time, for there may be millions
        return name
    return fitting(name, str, f"{source}: name of an image or class")
