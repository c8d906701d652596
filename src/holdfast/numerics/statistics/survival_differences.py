"""The difference of two survival curves on the same units, with a band that holds at all thresholds at once."""

import math
from dataclasses import dataclass

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.looks import level

DRAWS = 4000
"""Draws of signs: the 95 % quantile then varies by about half a percent of its value."""

MOST = 512
"""Thresholds among which the supremum is taken; curves of more values are looked at so many of them."""


@dataclass(frozen=True)
class SurvivalDifference:
    """D(t) = share of first values above t - share of second values above t, and its band.

    Attributes:
        at: thresholds, [T].
        value: D at them.
        low: lower ends of the band.
        high: upper ends of the band.
    """

    at: Float[Tensor, "places"]
    value: Float[Tensor, "places"]
    low: Float[Tensor, "places"]
    high: Float[Tensor, "places"]


def survival_difference(
    first: Float[Tensor, "units"],
    second: Float[Tensor, "units"],
    at: Float[Tensor, "places"],
    confidence: float = 0.95,
    seed: int = 0,
) -> SurvivalDifference:
    """Return D(t), and a band D ± w that holds the true D at every t with this confidence, about.

    With d_i(t) = [a_i > t] - [b_i > t] for the pair (a_i, b_i) of unit i, D is the mean of the d_i. The law of
    sup_t |D - true D| is that of sup_t |Σ s_i (d_i(t) - D(t))| / n for random signs s_i, in the limit: a multiplier
    bootstrap. It resamples nothing but signs, and keeps how the two values of a unit go together. In small samples that
    is too little: w is longer as Student's quantile of n - 1 is longer than the normal one, and by 1 / 2n, half of a
    step of D. It is at least 1 - (1 - c)^(1/n), the exact limit of a share that n units do not show, for confidence c:
    two curves that agree on n units may differ.

    Args:
        first: values of n units; infinite ones lie above every threshold.
        second: others of the same units.
        at: thresholds.
        confidence: of the whole band.
        seed: of the signs.

    Source: van der Vaart & Wellner (1996), "Weak convergence and empirical processes", 2.9 and 3.6 (multipliers);
    Kosorok (2008), "Introduction to empirical processes and semiparametric inference", 10.1.

    Example:
        >>> a, b = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([1.0, 1.5, 2.0, 2.5])
        >>> gap = survival_difference(a, b, torch.tensor([2.2]))
        >>> gap.value.tolist(), round(gap.high.item(), 3)
        ([0.25], 1.0)
    """
    # One width for all thresholds, from the places where the curves jump
    width = _width(first.double(), second.double(), level(confidence), seed)
    value = _steps(first.double(), second.double(), at.double()).mean(0)
    return SurvivalDifference(at, value, (value - width).clamp_min(-1), (value + width).clamp_max(1))


def _steps(
    first: Float[Tensor, "units"], second: Float[Tensor, "units"], at: Float[Tensor, "places"]
) -> Float[Tensor, "units places"]:
    """Return d_i(t), in {-1, 0, 1}."""
    return (first[:, None] > at).double() - (second[:, None] > at).double()


def _width(first: Float[Tensor, "units"], second: Float[Tensor, "units"], confidence: float, seed: int) -> float:
    """Return half the width of the band."""
    n = len(first)
    # D only changes where a value lies: the supremum is one over these
    jumps = torch.cat([first, second]).unique()
    jumps = jumps[jumps.isfinite()]
    if len(jumps) > MOST:
        jumps = jumps[torch.linspace(0, len(jumps) - 1, MOST).round().long()]
    # The share of units that n of them miss with probability 1 - c
    unseen = 1 - (1 - confidence) ** (1 / n)
    if n < 2 or not len(jumps):
        return unseen
    # the quantile of the supremum under random signs
    steps = _steps(first, second, jumps)
    # Scaled so that its sum with random signs has the unbiased variance of D
    centred = (steps - steps.mean(0)) * math.sqrt(n / (n - 1)) / n
    random = torch.Generator().manual_seed(seed)
    # [DRAWS, n] in float32, which is exact for signs: half the memory, and the quantile varies by more
    # than its rounding
    signs = torch.randint(0, 2, (DRAWS, n), generator=random, dtype=torch.float32) * 2 - 1
    supremum = float((signs @ centred.float()).abs().amax(1).quantile(confidence))
    tail = (1 + confidence) / 2
    return max(supremum * float(scipy.stats.t.ppf(tail, n - 1) / scipy.stats.norm.ppf(tail)) + 0.5 / n, unseen)
