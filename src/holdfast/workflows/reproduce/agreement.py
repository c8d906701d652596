"""Whether published numbers and ours differ by more than the choice of images does."""

import math
from collections.abc import Iterable

from holdfast.core import Score
from holdfast.numerics.statistics import clopper_pearson
from holdfast.numerics.statistics.levels import BINOMIAL
from holdfast.storage.reproduction import Agreement
from holdfast.workflows.reproduce.claim import THEIRS, TRAINED, Cell


def compare_with_published(cells: Iterable[Cell]) -> list[Agreement]:
    """Return, for every published number that ours can be compared with, whether the two agree.

    Ours has to be of the authors' networks, or of some trained as theirs were, and to have an interval.
    """
    comparable = (cell for cell in cells if cell.network in (THEIRS, TRAINED))
    return [found for cell in comparable if (found := _compare(cell)) is not None]


def _compare(cell: Cell) -> Agreement | None:
    """Return ours less the published number, in the paper's scale, with the interval of both; None where ours has none.

    L = d - √((θ₁-l₁)² + (u₂-θ₂)²), U = d + √((u₁-θ₁)² + (θ₂-l₂)²); they agree where [L, U] holds 0.

    Source: Zou & Donner (2008), "Construction of confidence limits about effect measures" (MOVER).
    """
    ours = cell.score
    if cell.published is None or ours is None or ours.value is None or ours.low is None or ours.high is None:
        return None
    theirs = cell.published / cell.scale
    below, above = _reach_of(theirs, cell.behind, ours)
    gap = ours.value - theirs
    ends = gap - math.hypot(ours.value - ours.low, above), gap + math.hypot(ours.high - ours.value, below)
    gap, low, high = (end * cell.scale for end in (gap, *ends))
    return Agreement(row=cell.row, column=cell.column, gap=gap, low=low, high=high, agrees=low <= 0 <= high)


def _reach_of(published: float, behind: int | None, ours: Score) -> tuple[float, float]:
    """Return how far the interval of a published number reaches below and above it.

    It is what ours would be at its value, over as many images as it is `behind` it. Where nobody says over how many, it
    is taken for exact, so that numbers that differ may do so by chance.
    """
    assert ours.value is not None  # both have an interval
    assert ours.low is not None
    assert ours.high is not None
    if behind is None:
        return 0.0, 0.0
    # A share's interval depends on the share; that of other scores is taken to narrow with the number of images
    if ours.interval.startswith(BINOMIAL) and 0 <= published <= 1:
        low, high = clopper_pearson(published * behind, behind)
        return published - low, high - published
    narrower = math.sqrt(ours.n / behind)
    return (ours.value - ours.low) * narrower, (ours.high - ours.value) * narrower
