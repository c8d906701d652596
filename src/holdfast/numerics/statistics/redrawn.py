"""Intervals of randomised encoders: what they say of the images, widened by what other draws would change."""

import math
from collections.abc import Sequence
from dataclasses import replace

import scipy
import torch

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.score import Score


def widen_interval(score: Score, others: Sequence[float], least: float = -math.inf, most: float = math.inf) -> Score:
    """Widen the interval of a score, which holds given the draws of its encoder, by the spread over groups of draws.

    With S₀ the score, S₁, ..., S_R those that other groups of as many draws give on the same images, and s the standard
    deviation of all R + 1: S₀ ± √(h² + (t s)²), h the distance of the end from S₀, t the quantile of Student's t with R
    degrees of freedom. So it holds of the mean of S over groups of draws, where the errors of images and of draws are
    independent and about normal.

    Args:
        score: of the encoder's own draws.
        others: R >= 1 scores by other groups of draws.
        least: the least that a score can be.
        most: the most.

    Example:
        >>> score = Score(0.5, 0.4, 0.7, 50, "binomial")
        >>> wide = widen_interval(score, [0.48, 0.53, 0.51, 0.5], 0, 1)
        >>> print(f"[{wide.low:.3f}, {wide.high:.3f}]: {wide.note}")
        [0.388, 0.706]: other draws give 0.48 to 0.53
    """
    kind, drawn = f"{score.interval}, widened by {len(others)} other groups of draws", [score.value, *others]
    if score.value is None or score.low is None or score.high is None or not all(map(math.isfinite, others)):
        return replace(score, interval=f"{score.interval}, given its draws")
    # R + 1 values have R degrees of freedom
    t = float(scipy.stats.t.ppf((1 + level(score.confidence)) / 2, len(others)))
    spread = t * float(torch.tensor(drawn, dtype=torch.float64).std())
    # Independent errors: squares of what they reach add up
    low = max(score.value - math.hypot(score.value - score.low, spread), least)
    high = min(score.value + math.hypot(score.high - score.value, spread), most)
    note = f"other draws give {min(others):.3g} to {max(others):.3g}"
    return replace(score, low=low, high=high, interval=kind, note="; ".join(filter(None, [score.note, note])))
