"""All images of a choice read once: which are good, what they hold, which look alike."""

from collections.abc import Callable, Iterator

import numpy as np

from holdfast.core import HoldfastError
from holdfast.runtime.errors import NotEnough
from holdfast.sources.data.shared.contents import Content, Traits
from holdfast.sources.data.shared.duplicates import LookAlikes
from holdfast.sources.data.shared.reader import Reader
from holdfast.sources.data.shared.rows_on_disk import RowsOnDisk
from holdfast.sources.data.shared.selection import DIGEST, Survey
from holdfast.sources.data.shared.thumbnails import SIDE

_BLOCK, _LARGEST = 2**10, 2**14
"""Images that are surveyed together, or a sixteenth of those before, to take up a block costs as much as they do; at
most so many, whose contents are in memory."""

Outcomes = Callable[[list[int]], Iterator[Content | HoldfastError]]
"""Reads the images of some rows: what they hold, or why they cannot be read."""


def survey(reader: Reader, order: np.ndarray, size: int, outcomes: Outcomes, skip_duplicates: bool) -> Survey:
    """Read images in some order until enough are good.

    Args:
        reader: names the images.
        order: the rows, in their order.
        size: how many good ones are wanted.
        outcomes: reads them.
        skip_duplicates: leave out what looks like an earlier one.

    Raises:
        HoldfastError: fewer than two that are good.
    """
    digests, known, position = RowsOnDisk(DIGEST), LookAlikes(size), 0
    left_out: list[int] = []  # positions in the order
    skipped: list[tuple[str, str]] = []
    duplicates: list[tuple[int, int, int]] = []
    traits: dict[Traits, int] = {}  # the number of each
    trait_of: list[int] = []

    def name(place: int) -> str:
        return reader.id(int(order[place]))

    while len(digests) < size and position < len(order):
        # never more than are still needed: what is skipped does not depend on the block
        count = min(max(_BLOCK, len(digests) // 16), _LARGEST, size - len(digests))
        good: list[tuple[int, Content]] = []
        for outcome in outcomes(order[position : position + count].tolist()):
            if isinstance(outcome, Content):
                good.append((position, outcome))
            else:
                left_out.append(position)
                skipped.append((name(position), str(outcome)))
            position += 1
        small = np.array([content.thumbnail for _, content in good], np.uint8).reshape(-1, SIDE * SIDE)
        kept = bytearray()
        for (place, content), twin in zip(good, known.take(small, skip_duplicates), strict=True):
            # Look-alikes are noted whether they are left out or not
            if twin is not None:
                duplicates.append((place, *twin))
            if twin is not None and skip_duplicates:
                left_out.append(place)
            else:
                kept += content.digest
                # Traits by number: most images of a set share them
                trait_of.append(traits.setdefault(content.traits, len(traits)))
        digests.add(kept)
    if len(digests) < 2:
        reason = f"; the first: {skipped[0][1]}" if skipped else ""
        alike = f"; {len(duplicates)} look like others and were left out" if duplicates else ""
        got = f"{len(digests)} in {reader}{reason}{alike}"
        raise NotEnough(f"expected at least 2 readable images, got {got}")
    rows = np.delete(order[:position], left_out) if left_out else order[:position]
    # The number of a twin counts what was taken up, and so the rows
    named = [(name(place), reader.id(int(rows[twin])), levels) for place, twin, levels in duplicates]
    mixed = len({trait.shape[1:] for trait in traits if trait.is_picture}) > 1
    return Survey(rows, digests, skipped, named, mixed, tuple(traits), np.array(trait_of, np.int32))
