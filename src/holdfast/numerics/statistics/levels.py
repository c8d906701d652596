"""At which level a paired difference would just be called zero: p-values from 95 % intervals.

A record holds intervals of one level. Their ends at another are taken to lie as those of the same method would: a
proportion's as Clopper and Pearson's for the effective number of trials that its interval is worth, a limit for a
sample without exception as 1 - (α/2)^(1/n), every other score's as those of Student's t. At the interval's own level
all give the interval itself, so p <= 0.05 says that the paired 95 % interval excludes zero, and only how much further
below 0.05 p lies rests on the form of the tails.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from jaxtyping import Float

from holdfast.numerics.statistics.score import Score

Levels = Float[np.ndarray, "levels"]

FLOOR = 1e-12
"""Smaller p-values are given as this: no interval's tail is known so far out."""

ALPHAS: Levels = np.unique(np.concatenate([np.geomspace(FLOOR, 0.5, 97), [0.05], np.linspace(0.55, 1, 10)]))
"""1 - level of the intervals that are looked at; between them p is interpolated, linearly in log α."""

BINOMIAL, LIMIT = ("exact binomial", "binomial with effective size"), "exact limit"
"""How the kinds of intervals begin (`Score.interval`) that are a proportion's, and limits without exception."""


@dataclass(frozen=True)
class Reach:
    """How far a score's interval reaches from its value, at each of `ALPHAS`; in the score's unit."""

    below: Levels
    above: Levels

    def scale(self, factor: float) -> "Reach":
        """Reach of the score times a positive number."""
        return Reach(self.below * factor, self.above * factor)

    def at(self, level: float) -> tuple[float, float]:
        """How far it reaches below and above where the interval misses the truth with this probability."""
        at = np.log(level), np.log(ALPHAS)
        return float(np.interp(*at, self.below)), float(np.interp(*at, self.above))


@lru_cache(maxsize=4096)  # of a score that takes part in many pairs
def reach(score: Score, times: float = 1.0) -> Reach | None:
    """Reach of the interval of a score at other levels; None without an interval.

    Args:
        score: the score.
        times: how many times as many units there would be, of the same kind: trials and limits count them, the ends of
            all other intervals come nearer as 1/√times.

    Example:
        >>> near = reach(Score(0.5, 0.4, 0.6, 100, "t", 0.95, ""))
        >>> print(f"{near.below[np.searchsorted(ALPHAS, 0.05)]:.2f} {near.below[np.searchsorted(ALPHAS, 0.01)]:.2f}")
        0.10 0.13
    """
    if score.value is None or score.low is None or score.high is None:
        return None
    below, above = score.value - score.low, score.high - score.value
    tail = (1 - score.confidence) / 2
    trials = _trials(score, tail) if score.interval.startswith(BINOMIAL) else None
    if score.interval.startswith(LIMIT):
        ratio = (1 - (ALPHAS / 2) ** (1 / (times * score.n))) / (1 - tail ** (1 / score.n))
        return Reach(below * ratio, above * ratio)
    if trials is None:
        ratio = _students(max(score.n - 1, 1), tail) / math.sqrt(times)
        return Reach(below * ratio, above * ratio)
    # a proportion: Clopper-Pearson's ends at each level for the trials that its interval is worth
    p, n = score.value, times * trials
    k = p * n
    lows = scipy.stats.beta.ppf(ALPHAS / 2, k, n - k + 1) if k > 0 else np.zeros_like(ALPHAS)
    highs = scipy.stats.beta.isf(ALPHAS / 2, k + 1, n - k) if k < n else np.ones_like(ALPHAS)
    k = p * trials
    own_low = float(scipy.stats.beta.ppf(tail, k, trials - k + 1)) if k > 0 else 0.0
    own_high = float(scipy.stats.beta.isf(tail, k + 1, trials - k)) if k < trials else 1.0
    # the other end need not be that of so many trials to the last digit, so both are scaled to what they were
    return Reach(_rescale_levels(p - lows, p - own_low, below), _rescale_levels(highs - p, own_high - p, above))


@lru_cache
def _students(freedom: int, tail: float) -> Levels:
    return np.maximum(scipy.stats.t.isf(ALPHAS / 2, freedom) / scipy.stats.t.isf(tail, freedom), 0)


def _rescale_levels(reaches: Levels, own: float, reported: float) -> Levels:
    return np.maximum(reaches, 0) * (reported / own if own > 0 else 0.0)


def _trials(score: Score, tail: float) -> float | None:
    """Number of trials that have this interval on the side where it is longer; None where no number has."""
    value, low, high = score.value, score.low, score.high
    assert value is not None
    assert low is not None
    assert high is not None
    if not 0 <= low <= value <= high <= 1:
        return None
    # the trials whose upper end is the interval's: the root of a function that falls with log n
    p, far = (value, high) if value <= 0.5 else (1 - value, 1 - low)  # by symmetry, the upper end
    if not p < far < 1:
        return None

    def excess(log_n: float) -> float:
        n = math.exp(log_n)
        return float(scipy.stats.beta.isf(tail, p * n + 1, n - p * n)) - far

    ends = math.log(1e-2), math.log(1e12)
    if excess(ends[0]) < 0 or excess(ends[1]) > 0:
        return None
    root = scipy.optimize.brentq(excess, *ends)
    assert isinstance(root, float)
    return math.exp(root)


def p_value(gap: float, first: Reach, second: Reach, correlation: float, n: int) -> float:
    """1 - the highest level at which the paired interval of a difference excludes zero.

    The interval at each level is `statistics.difference`'s (MOVER) of both scores' intervals at that level.

    Args:
        gap: first minus second, θ₁ - θ₂.
        first: how far the first score's interval reaches.
        second: how far the second's does.
        correlation: of their per-image influences.
        n: units behind the difference, which keep the correlation below 1 - 1/n.

    Example:
        >>> far = reach(Score(0.5, 0.4, 0.6, 100, "t", 0.95, ""))
        >>> p_value(0.1, far, far, correlation=0.0, n=100) > 0.05 > p_value(0.1, far, far, correlation=0.9, n=100)
        True
    """
    first_reach, second_reach = (first.below, second.above) if gap > 0 else (first.above, second.below)
    rho = min(correlation, 1 - 1 / max(n, 1))
    squared = first_reach**2 + second_reach**2 - 2 * rho * first_reach * second_reach  # MOVER at each level
    return p_of_reach(gap, np.sqrt(np.maximum(squared, 0)))


def p_of_reach(gap: float, reaches: Levels) -> float:
    """1 - the highest level at which an interval excludes zero.

    Args:
        gap: the value.
        reaches: how far its interval reaches towards zero at each of `ALPHAS`.

    Example:
        >>> round(p_of_reach(0.1, reach(Score(0.1, 0.0, 0.2, 100, "t")).below), 6)
        0.05
    """
    if gap == 0:
        return 1.0
    excess = abs(gap) - reaches  # above 0: excludes zero
    inside = np.flatnonzero(excess <= 0)
    if not len(inside):
        return FLOOR
    last = int(inside[-1])
    if last == len(ALPHAS) - 1:
        return 1.0
    # between two levels, linear in log α
    step = -excess[last] / (excess[last + 1] - excess[last])
    return float(np.exp(np.log(ALPHAS[last]) + step * (np.log(ALPHAS[last + 1]) - np.log(ALPHAS[last]))))
