"""When to stop drawing: from tallies of [0, 1] draws, with bounds that hold at every time (`betting`).

Whatever these rules say, a betting bound of the tally at which drawing ends keeps its level: they only decide whether
more draws are worth their cost.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.numerics.statistics import betting
from holdfast.numerics.statistics.betting import Counts

PerVariable = Float[Tensor, "*shape"]


def is_decided(counts: Counts, mean: PerVariable, alpha: float, budget: int) -> Bool[Tensor, "*shape"]:
    """Whether the mean is proved to be above or below `mean`, or can no longer be proved to be above.

    The last: even if all draws up to the budget were 1, they would not prove it.

    Args:
        counts: see `betting.tally`.
        mean: what the means are compared with, in (0, 1).
        alpha: the chance of a wrong proof, on either side.
        budget: draws at most.

    Example:
        >>> counts = betting.tally_votes(torch.tensor([20, 0, 40, 0]), torch.tensor([20, 20, 96, 2]))
        >>> is_decided(counts, torch.tensor(0.5).double(), alpha=0.05, budget=100).tolist()
        [True, True, True, False]
    """
    return _decide_between(counts, mean.expand(counts.shape[:-1]), mean.expand(counts.shape[:-1]), alpha, budget)


def is_settled(counts: Counts, precision: float, alpha: float, budget: int) -> Bool[Tensor, "*shape"]:
    """Whether more draws hardly raise the radius Φ⁻¹(lower bound of the mean), or cannot lift the bound above ½.

    Hardly: the bound is at `betting.near_mean`, less than `precision` below the plug-in radius or the largest one.

    Args:
        counts: see `betting.tally`.
        precision: in units of Φ⁻¹.
        alpha: the chance of a bound above the mean.
        budget: draws at most.

    Example:
        >>> counts = betting.tally_votes(torch.tensor([90, 1000, 10]), torch.tensor([100, 1000, 100]))
        >>> is_settled(counts, precision=0.2, alpha=0.001, budget=1000).tolist()
        [False, True, True]
    """
    near = betting.near_mean(counts, precision, alpha, budget)
    return _decide_between(counts, near, torch.full_like(near, 0.5), alpha, budget)


def all_settled(counts: Counts, precision: float, alpha: float, budget: int) -> bool:
    """Whether `is_settled` holds of all variables; nearly free where there are too few draws for that.

    Of n draws with a plain mean x̄ no bet wins more than n log(x̄ / m) against a mean m <= x̄ (Jensen's inequality).

    Example:
        >>> counts = betting.tally_votes(torch.tensor([100, 1000]), torch.tensor([100, 1000]))
        >>> all_settled(counts, 0.2, 0.001, 1000), all_settled(counts[1:], 0.2, 0.001, 1000)
        (False, True)
    """
    plain, near = betting.empirical_mean(counts), betting.near_mean(counts, precision, alpha, budget)
    # No bet can have reached 1/α, so nothing is settled, and no bound need be found
    most = counts.sum(-1) * (plain / near).log()
    if bool(((plain >= 0.5) & (most < math.log(1 / alpha))).any()):
        return False
    return bool(is_settled(counts, precision, alpha, budget).all())


def _decide_between(
    counts: Counts, high: PerVariable, low: PerVariable, alpha: float, budget: int
) -> Bool[Tensor, "*shape"]:
    """Whether the mean is proved to be above `high` or below `low` <= `high`, or cannot be proved to be above `low`."""
    # a plain mean of `low` or more proves nothing below it, one below `low` nothing above: one look serves both
    above = betting.empirical_mean(counts) >= low
    sided = torch.where(above[..., None], counts, counts.flip(-1))
    result = betting.exceeds(sided, torch.where(above, high, 1 - low), alpha, budget)
    # the best that is still possible, where the plain mean is below
    open_ = ~above & ~result
    if not bool(open_.any()):
        return result
    best = counts[open_]
    best[:, -1] += budget - best.sum(-1)
    result[open_] = ~betting.exceeds(best, low[open_], alpha, budget)
    return result
