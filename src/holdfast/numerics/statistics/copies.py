"""Copies are no further images: what shows a picture again counts with it, once.

A table's rows are images. Where some show the same picture, the rows of the first of each are what a score is made of,
so that its value and its interval are those of so many pictures, whatever kind of interval it is: rows of copies depend
on each other as much as any can, and no interval of independent images holds with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.numerics.shapes import Table
from holdfast.numerics.statistics.score import Score

ONCE, UNKNOWN = "each of {} pictures once", "copies of images counted like others"
"""What is said of an interval where images have copies: how many pictures count, or that rows are no images."""


@runtime_checkable
class Measure(Protocol):
    """What makes scores of a table."""

    def rows(self, table: Table) -> list[str] | None:
        """Return what its rows are; None where they are images."""
        ...

    def score(self, table: Table) -> dict[str, Score]:
        """Return named scores."""
        ...


def firsts(ids: Sequence[str], alike: Iterable[tuple[str, str]]) -> Int[Tensor, "images"] | None:
    """Return the place of the first image that shows the picture of each; None where no image shows that of another.

    Args:
        ids: of the images, in their order.
        alike: the ids of two images that show one picture, each; of other images too.

    Example:
        >>> firsts(["a", "b", "c", "d"], [("c", "a"), ("d", "c"), ("x", "b")]).tolist()
        [0, 1, 0, 0]
    """
    pairs = list(alike)
    if not pairs:
        return None
    named = {name for pair in pairs for name in pair}
    places = {name: place for place, name in enumerate(ids) if name in named}
    # A forest of places, -1 at its roots; images that are named in no pair are not in it
    first = dict.fromkeys(places.values(), -1)

    def leader(place: int) -> int:
        while first[place] >= 0:
            place = first[place]
        return place

    for one, other in pairs:
        if one in places and other in places:
            # The earlier root leads, so that the root of a tree is its first image
            low, high = sorted((leader(places[one]), leader(places[other])))
            if low < high:
                first[high] = low
    joined = [(place, leader(place)) for place in first if first[place] >= 0]
    if not joined:
        return None
    result = torch.arange(len(ids))
    own, lead = torch.tensor(joined).unbind(1)
    result[own] = lead
    return result


def rows_of_pictures(measure: Measure, table: Table, first: Int[Tensor, "images"] | None) -> Table:
    """Return the rows of the first image of each picture; the table itself where no row is of another one.

    Args:
        measure: whose table it is; of one whose rows are no images nothing is left out.
        table: what it observed, a row for each of the first images.
        first: see `firsts`.

    Example:
        >>> from types import SimpleNamespace
        >>> measure = SimpleNamespace(rows=lambda table: None)
        >>> rows_of_pictures(measure, {"held": torch.tensor([1, 2, 3])}, torch.tensor([0, 0, 2]))["held"].tolist()
        [1, 3]
    """
    if first is None or (kept := _select_first_rows(measure, table, first)) is None:
        return table
    return {name: column[kept] for name, column in table.items()}


def score_pictures(measure: Measure, table: Table, first: Int[Tensor, "images"] | None) -> dict[str, Score]:
    """Return the scores of a table of which each picture counts once.

    Args:
        measure: whose table it is.
        table: what it observed.
        first: see `firsts`; None where no image is a copy.

    Example:
        >>> from types import SimpleNamespace
        >>> from holdfast.numerics.statistics import share
        >>> measure = SimpleNamespace(rows=lambda table: None, score=lambda table: {"held": share(table["held"])})
        >>> table, first = {"held": torch.tensor([1.0, 0.0, 1.0, 0.0])}, torch.tensor([0, 1, 0, 1])
        >>> score_pictures(measure, table, first)["held"].interval
        'exact binomial (Clopper-Pearson), each of 2 pictures once'
    """
    if first is None:
        return measure.score(table)
    # Copies are left out; where rows are no images, the interval says that they count
    pictures = rows_of_pictures(measure, table, first)
    if pictures is not table:
        return _annotate_intervals(measure.score(pictures), ONCE.format(_length(pictures)))
    scores = measure.score(table)
    return scores if measure.rows(table) is None else _annotate_intervals(scores, UNKNOWN)


def _select_first_rows(measure: Measure, table: Table, first: Int[Tensor, "images"]) -> Int[Tensor, "rows"] | None:
    """Return the rows of the first image of each picture; None where these are all, or rows are no images."""
    rows = _length(table)
    if measure.rows(table) is not None or rows > len(first):
        return None
    kept = (first[:rows] == torch.arange(rows)).nonzero().flatten()
    return kept if len(kept) < rows else None


def _length(table: Table) -> int:
    return len(next(iter(table.values())))


def _annotate_intervals(scores: Mapping[str, Score], words: str) -> dict[str, Score]:
    return {name: replace(score, interval=f"{score.interval}, {words}") for name, score in scores.items()}
