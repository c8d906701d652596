"""Distances in units of the usual one, the median over pairs of images, whose own error is in their intervals."""

import math
from dataclasses import dataclass, replace

import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Divergence, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.statistic import Influence, Statistic

UNIT, MOVES = "unit", "unit moved by"
"""Columns of a table: the usual distance, and by how much each image moves it, as a share of it."""


def usual_distance(
    points: Float[Tensor, "points dim"], image: Int[Tensor, "points"], images: int, divergence: Divergence
) -> Table:
    """Return the median distance of all pairs of points of different images, as columns of a table, [N] each.

    To first order (Hájek) image i moves the share of pairs below the median by 2 (u_i - ū) / N, with u_i the share of
    its own pairs there, and the median against it, by the slope of the distances' quantiles around it. The root of the
    sum of squares of what all images move is the median's standard error.

    Args:
        points: representations, or tokens of patches.
        image: which image of the population each belongs to.
        images: N, how many images there are.
        divergence: a symmetric one.

    Returns:
        `unit`, the median, the same in every row, NaN where it is 0 or there are no pairs; `unit moved by`, a share of
        the median, 0 for images without a point.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
                >>> points = torch.tensor([[0.0], [1.0], [2.0], [4.0]])
        >>> columns = usual_distance(points, torch.arange(4), 4, L2())
        >>> columns["unit"].tolist()
        [2.0, 2.0, 2.0, 2.0]
    """
    apart = pairwise.pairwise(points.double(), points.double(), divergence)
    different = image[:, None] != image
    # Each pair once
    ordered = apart[different & (image[:, None] < image)].sort().values
    # The lower of two middle ones: a distance that occurs
    median = float(ordered[(len(ordered) - 1) // 2]) if len(ordered) else 0.0
    if not median > 0:
        return {UNIT: torch.full((images,), torch.nan, dtype=torch.float64), MOVES: torch.zeros(images).double()}
    # u_i, over all points of an image
    below, pairs = (
        torch.zeros(images).double().index_add_(0, image, flags.sum(1).double())
        for flags in (different & (apart < median), different)
    )
    # The share of an image's own pairs below the median; NaN where it has no point
    near = below / pairs.masked_fill(pairs == 0, torch.nan)
    # Hájek's projection of the share below the median; twice, as an
    # image is in both places of a pair
    moves = 2 * (near - near.nanmean()).nan_to_num(0.0) / int((pairs > 0).sum())
    # the slope of the quantiles, over as much as the share is uncertain
    error = min(0.5, math.hypot(float(moves.norm()), 0.5 / math.sqrt(len(ordered))))
    low, high = (float(ordered[round((0.5 + sign * error) * (len(ordered) - 1))]) for sign in (-1, 1))
    # By how much the median moves, as a share of it, where the share below it moves by one
    slope = (high - low) / (2 * error) / median
    return {UNIT: torch.full((images,), median, dtype=torch.float64), MOVES: -slope * moves}


def strip_padding(values: Float[Tensor, "images"]) -> Float[Tensor, "attacked"]:
    """Return the rows of a column up to the last one that has a value."""
    known = (~values.isnan()).nonzero()
    return values[: int(known.max()) + 1] if len(known) else values


@dataclass(frozen=True, eq=False)
class InUnits(Statistic):
    """The mean of a column, in units of the usual distance, with an interval that holds the unit's error.

    The interval of the mean given the unit is combined with what the ends of the unit's interval make of the mean
    (MOVER), with the correlation of what each image moves in both.

    Attributes:
        table: with the columns of `usual_distance`.
        column: distances as multiples of the unit, or differences of such; NaN where an image was not attacked.
        condition: what else the interval is conditional on.
    """

    table: Table
    column: str
    condition: str = ""

    def score(self) -> Score:
        """Return the mean."""
        values, moves = self.table[self.column], self.table[MOVES]
        score, images = statistics.mean(strip_padding(values), condition=self.condition), int((moves != 0).sum())
        if score.value is None or score.low is None or score.high is None or images < 2:
            return score
        # Half the width of the interval of log(unit)
        error = float(scipy.stats.t.ppf((1 + level(score.confidence)) / 2, images - 1)) * float(moves.norm())
        # What the unit's ends make of the mean, which is inverse to it
        least, most = sorted(score.value * math.exp(sign * error) for sign in (-1, 1))
        rho = statistics.correlation(*_influences(self.table, self.column))
        # Distances are never negative, but differences of them may be
        floor = -math.inf if bool((values < 0).any()) else 0.0
        low = score.value - statistics.combine_reaches(score.value - score.low, score.value - least, -rho)
        high = score.value + statistics.combine_reaches(score.high - score.value, most - score.value, -rho)
        kind = f"{score.interval}, and of the usual distance (MOVER)"
        return replace(score, low=max(low, floor), high=high, interval=kind)

    def influence(self) -> Influence:
        """Return each image's influence, by its own distance and by the unit."""
        by_value, by_unit = _influences(self.table, self.column)
        return by_value + by_unit


def _influences(table: Table, column: str) -> tuple[Float[Tensor, "images"], Float[Tensor, "images"]]:
    """Return by how much each image moves the mean of a column, itself and by the unit; 0 where it has no value."""
    values = table[column]
    attacked = max(int((~values.isnan()).sum()), 1)
    by_value = (values - values.nanmean()).nan_to_num(0.0).double() / attacked
    # A larger unit makes the mean smaller by the same share
    return by_value, -values.nanmean().nan_to_num(0.0) * table[MOVES]
