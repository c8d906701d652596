"""Means of skewed values: the outer ends of Student's t and Hall's interval."""

import math

import scipy
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.rows import by_unit, constant, drop_undefined
from holdfast.numerics.statistics.score import Score

FEWEST = 8
"""Values from which on a mean has an interval: of fewer, nothing tells how skewed they are."""


def mean(
    values: Float[Tensor, "rows"],
    units: Int[Tensor, "rows"] | None = None,
    condition: str = "",
    confidence: float = 0.95,
    most: float | None = None,
) -> Score:
    """Mean of non-negative, often skewed values (radii, many of them 0) with an interval that knows skew.

    The ends are the outer ones of two intervals: Student's t, x̄ ± t s/√n, and Hall's, which removes the skewness λ,
    [x̄ - s g(t/√n), x̄ - s g(-t/√n)] with g(z) = 3/λ ((1 + λ(z - λ/6n))^(1/3) - 1) and t the quantile of as many degrees
    as s² has, 2n / (κ - 1) with κ the kurtosis, at most n - 1 (Satterthwaite): heavy tails tell less about the spread.
    Student's alone is too short where values are skewed (0.82 instead of 0.95 for 50 values of which 9 in 10 are 0), as
    are bootstrap percentiles with bias correction and acceleration (0.87); Hall's needs no drawing.
    Few values seldom hold those far out that make the skewness, so that λ of a sample is too small: the ends are also
    those that Hall's interval has with λ ± σ_λ, away from 0 by the standard error that the skewness of n normal values
    has (by 2|λ|, if that is less). The outer ends keep the level or exceed it slightly (0.92 to 0.99 in simulations
    with n >= 8; see docs/statistics.md). Of fewer than 8 values there is no interval. The lower end is not below 0
    where no value is.

    With units the rows of one unit are correlated: each unit u counts as one value, x̄ + m/n Σ_{i in u} (x_i - x̄), whose
    mean is x̄ and whose spread gives the linearised variance.

    Equal values tell nothing about the spread. Where all values lie in [0, most], less than 1 - (α/2)^(1/n) of
    the distribution differs from what was seen n times, and this gives the interval; else there is none.

    Args:
        values: one number per row, in any unit; NaN where undefined.
        units: which rows belong together; None when rows are independent.
        condition: what the interval is conditional on.
        confidence: level of the interval.
        most: the largest value possible, if there is one; the interval's limit, and used where all values are equal.

    Source: Hall (1992), "On the removal of skewness by transformation"; Särndal et al. (1992) for linearisation.

    Example:
        >>> score = mean(torch.tensor([0.0, 0.0, 0.1, 0.4, 0.0, 0.2, 0.0, 0.3]), most=1.0)
        >>> print(f"{score.value:.3f} in [{score.low:.3f}, {score.high:.3f}]: {score.note}")
        0.125 in [0.000, 0.656]: only 4 of 8 values differ from the commonest: the interval may cover less than 95 %
    """
    values, units, note = drop_undefined(values.double(), units)
    kind = "outer ends of Student's t and Hall's skewness-corrected interval" + (f", {condition}" if condition else "")
    if not len(values):
        return Score(None, None, None, 0, kind, confidence, note)
    value = float(values.mean())
    parts = values if units is None else _linearise_by_unit(values, value, units)
    n, tail = len(parts), (1 - level(confidence)) / 2

    def build_score(low: float | None, high: float | None, kind: str = kind, *words: str) -> Score:
        return Score(value, low, high, n, kind, confidence, "; ".join(filter(None, [note, *words])))

    # samples without a spread
    if not math.isfinite(value):
        return build_score(None, None, kind, "some values are infinite")
    if n == 1:
        return build_score(None, None, kind, "one value has no interval")
    if constant(parts):
        if most is None:
            return build_score(None, None, kind, f"all {n} values are equal, so their spread is unknown: no interval")
        # With probability α/2 a share `same` of equal values is all that n draws meet; the rest may
        # lie anywhere in [0, most]
        same = tail ** (1 / n)
        return build_score(same * value, same * value + (1 - same) * most, "exact limit for a sample without exception")

    # outer ends of Student's t and Hall's interval
    if n < FEWEST:
        return build_score(
            None, None, kind, f"{n} values are too few for an interval of a skewed mean: it takes {FEWEST}"
        )
    deviation, centred = float(parts.std()), parts - parts.mean()
    t = float(scipy.stats.t.ppf(1 - tail, degrees_of_freedom(centred))) / math.sqrt(n)
    skew = float(centred.pow(3).mean() / centred.square().mean() ** 1.5)
    # The skewness as it is, and farther from 0: a sample seldom has the values far out that make it
    skews = skew, _farther(skew, n)
    low = value - deviation * max(t, *(_invert_hall(t, each, n) for each in skews))
    high = value + deviation * max(t, *(-_invert_hall(-t, each, n) for each in skews))

    # a warning where few values differ from the commonest: moments of so few are not to be trusted
    carriers = int((values != values.mode().values).sum())
    few = f"only {len(values)} values"
    if carriers < len(values) - 1:
        few = f"only {carriers} of {len(values)} values differ from the commonest"
    return build_score(
        max(low, 0.0) if values.min() >= 0 else low,
        high if most is None else min(high, most),
        kind,
        f"{few}: the interval may cover less than {100 * confidence:g} %" if carriers < 10 else "",
    )


def degrees_of_freedom(centred: Float[Tensor, "units"]) -> float:
    """Degrees of freedom of the spread of values, less their mean: 2n / (κ - 1), at most n - 1.

    κ is the kurtosis: heavy tails tell less about the spread (Satterthwaite).

    Example:
        >>> degrees_of_freedom(torch.tensor([-2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]))
        5.333333333333333
    """
    n, square = len(centred), float(centred.square().mean())
    # With kurtosis κ a mean of squares varies as that of 2n / (κ - 1) normal values
    kurtosis = float(centred.pow(4).mean()) / square**2 if square > 0 else 0.0
    return min(n - 1, 2 * n / (kurtosis - 1)) if kurtosis > 1 else n - 1


def influence_of_mean(values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Influence of each row on the mean, up to a factor: value - mean; 0 where undefined.

    Example:
        >>> influence_of_mean(torch.tensor([1.0, 2.0, 6.0])).tolist()
        [-2.0, -1.0, 3.0]
    """
    return (values - values.nanmean()).nan_to_num(0.0)


def _linearise_by_unit(
    values: Float[Tensor, "rows"], value: float, units: Int[Tensor, "rows"]
) -> Float[Tensor, "units"]:
    """One number per unit, whose mean is that of the rows and whose spread is that between units."""
    names, unit = units.unique(return_inverse=True)
    return value + by_unit(values - value, unit) * len(names) / len(values)


def _farther(skew: float, n: int) -> float:
    """The skewness, farther from 0 by its standard error, or by twice itself where that is less."""
    error = math.sqrt(6 * n * (n - 1) / ((n - 2) * (n + 1) * (n + 3)))
    return skew + max(-error, min(error, 2 * skew))


def _invert_hall(z: float, skew: float, n: int) -> float:
    """Hall's g(z): the studentised mean that his transformation maps to z; z itself without skewness."""
    # The limit, where the formula divides by 0
    if abs(skew) < 1e-6:
        return z
    return 3 / skew * (math.cbrt(1 + skew * (z - skew / (6 * n))) - 1)
