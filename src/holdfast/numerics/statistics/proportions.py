"""Shares of rows that are 1: exact binomial intervals, of an effective size where rows are correlated."""

import scipy
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.rows import by_unit, distinct, drop_undefined
from holdfast.numerics.statistics.score import Score


def clopper_pearson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval of a proportion; both counts may be effective (fractional) ones.

    low = Beta⁻¹(α/2; k, n-k+1), high = Beta⁻¹(1-α/2; k+1, n-k), with low = 0 at k = 0 and high = 1 at k = n.

    Source: Clopper & Pearson (1934).

    Example:
        >>> low, high = clopper_pearson(0, 100)
        >>> print(f"{low:.3f} to {high:.3f}")
        0.000 to 0.036
    """
    tail = (1 - level(confidence)) / 2
    k, n = successes, trials
    low = 0.0 if k <= 0 else float(scipy.special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k >= n else float(scipy.special.betainccinv(k + 1, n - k, tail))
    return low, high


def effective_size(hits: Float[Tensor, "rows"], units: Int[Tensor, "rows"], confidence: float = 0.95) -> float:
    """Number of independent trials that rows are worth when rows of one unit are correlated.

    n_eff = p(1-p) / v · (t_{n-1} / t_{m-1})², with v the variance of the mean between the m units; m where v = 0.
    Never more than the number of rows.

    Source: Korn & Graubard (1998), "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data".

    Example:
        >>> hits = torch.tensor([1.0, 1, 0, 0, 1, 1, 0, 0])
        >>> effective_size(hits, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])) < 4
        True
    """
    n, m = len(hits), distinct(units)
    p = float(hits.mean())
    variance = float(by_unit(hits.double() - p, units).square().sum()) * m / max(m - 1, 1) / n**2
    if m == n or m < 2 or variance <= 0:
        return float(min(m, n))
    # the variance has m - 1 degrees of freedom, where that of n independent rows has n - 1
    tail = 0.5 + level(confidence) / 2
    ratio = float(scipy.stats.t.ppf(tail, n - 1) / scipy.stats.t.ppf(tail, m - 1))
    return min(float(n), p * (1 - p) / variance * ratio**2)


def effective_trials(p: float, variance: float, freedom: float, most: float, confidence: float) -> float:
    """Number of independent trials of chance p whose mean has this variance: p(1-p) / v · (z / t_ν)², at most `most`.

    Args:
        p: the share.
        variance: v of the share's estimate.
        freedom: ν, the degrees of freedom that v has.
        most: all trials there are.
        confidence: level of the interval that is made of them.

    Source: Korn & Graubard (1998), see `effective_size`.

    Example:
        >>> round(effective_trials(0.5, variance=0.01, freedom=50, most=100, confidence=0.95), 1)
        23.8
    """
    if variance <= 0:
        return most
    tail = 0.5 + level(confidence) / 2
    ratio = float(scipy.stats.norm.ppf(tail) / scipy.stats.t.ppf(tail, freedom))
    return min(most, p * (1 - p) / variance * ratio**2)


def share(
    hits: Float[Tensor, "rows"], units: Int[Tensor, "rows"] | None = None, condition: str = "", confidence: float = 0.95
) -> Score:
    """Share of rows that are 1, with an exact (or, with units, design-effect corrected) interval.

    Args:
        hits: 1 or 0 for every row; NaN where undefined.
        units: which rows belong together (both directions of a pair); None when rows are independent.
        condition: what the interval is conditional on.
        confidence: level of the interval.

    Example:
        >>> score = share(torch.tensor([1.0, 1, 1, 0]))
        >>> print(f"{score.value} in [{score.low:.3f}, {score.high:.3f}], {score.interval}")
        0.75 in [0.194, 0.994], exact binomial (Clopper-Pearson)
    """
    hits, units, note = drop_undefined(hits, units)
    kind = "exact binomial (Clopper-Pearson)" if units is None else "binomial with effective size (Korn-Graubard)"
    kind += f", {condition}" if condition else ""
    if not len(hits):
        return Score(None, None, None, 0, kind, confidence, note or "undefined: there is nothing to count")
    # Successes of the effective size need not be whole: Beta's inverse takes any
    n = float(len(hits)) if units is None else effective_size(hits, units, confidence)
    value = float(hits.double().mean())
    low, high = clopper_pearson(value * n, n, confidence)
    count = len(hits) if units is None else distinct(units)
    return Score(value, low, high, count, kind, confidence, note)


def share_of_draws(shares: Float[Tensor, "images"], draws: int, condition: str = "", confidence: float = 0.95) -> Score:
    """Mean of shares, each from so many draws of one image, with an interval over images and draws.

    The draws of one image are a cluster: the mean's variance v, taken between images, holds both sources of error. It
    gives the number of independent trials that the sample is worth, n_eff = p(1-p) / v · (z / t_{m-1})², at most all
    draws, and the exact binomial interval of that size. Its ends are moved out to where they would be if all images of
    a share u = 1 - (α/2)^(1/m), which m images miss with probability α/2, failed (or held): (1-u) p and p + u (1-p).
    So a sample without a failure and one with a single failing draw say about the same.

    Args:
        shares: successes / draws of every image; NaN where undefined.
        draws: behind each of them.
        condition: what the interval is conditional on.
        confidence: level of the interval.

    Source: Korn & Graubard (1998), see `effective_size`.

    Example:
        >>> score = share_of_draws(torch.tensor([1.0, 0.9, 1.0, 0.95]), draws=20)
        >>> print(f"{score.value:.4f} in [{score.low:.2f}, {score.high:.2f}] from {score.n} images")
        0.9625 in [0.38, 1.00] from 4 images
    """
    shares, _, note = drop_undefined(shares.double())
    kind = "binomial with effective size over images and draws (Korn-Graubard), with room for images not met"
    kind += f", {condition}" if condition else ""
    m = len(shares)
    if not m:
        return Score(None, None, None, 0, kind, confidence, note)
    # n_eff from the variance between images; without exception, draws prove no more than their images
    value, tail = float(shares.mean()), (1 - level(confidence)) / 2
    variance = float(shares.var()) / m if m > 1 else 0.0
    most = float(m if value in (0.0, 1.0) else m * draws)
    size = effective_trials(value, variance, m - 1, most, confidence)
    low, high = clopper_pearson(value * size, size, confidence)
    # room for images that m draws of an image miss with probability α/2
    unmet = 1 - tail ** (1 / m)
    low, high = min(low, (1 - unmet) * value), max(high, value + unmet * (1 - value))
    return Score(value, low, high, m, kind, confidence, note)
