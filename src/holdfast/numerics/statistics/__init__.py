"""Intervals: exact where trials are independent, honest about pairs that share an image, never of zero width.

Every function returns a `Score` that says what kind of interval it carries. Values that are NaN are undefined for
their image; they are left out and counted in the note.
"""

import math

import torch
from jaxtyping import Float, Int
from scipy import special, stats
from torch import Tensor

from holdfast.core import Score


def clopper_pearson(successes: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a proportion; both counts may be effective (fractional) ones.

    low = Beta⁻¹(α/2; k, n-k+1), high = Beta⁻¹(1-α/2; k+1, n-k), with low = 0 at k = 0 and high = 1 at k = n.

    Source: Clopper & Pearson (1934).
    """
    tail = (1 - confidence) / 2
    k, n = successes, trials
    low = 0.0 if k <= 0 else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k >= n else float(special.betainccinv(k + 1, n - k, tail))
    return low, high


def effective_size(hits: Float[Tensor, "rows"], units: Int[Tensor, "rows"], confidence: float = 0.95) -> float:
    """Return how many independent trials the rows are worth when rows of one unit are correlated.

    n_eff = p(1-p) / v · (t_{n-1} / t_{m-1})², with v the variance of the mean between the m units; m where v = 0.
    Never more than the number of rows.

    Source: Korn & Graubard (1998), "Confidence intervals for proportions with small expected number of positive
    counts estimated from survey data".
    """
    n, m = len(hits), len(units.unique())
    p = float(hits.mean())
    totals = torch.zeros(int(units.max()) + 1, dtype=torch.float64).index_add_(0, units, hits.double() - p)
    variance = float(totals.square().sum()) * m / max(m - 1, 1) / n**2
    if m == n or m < 2 or variance <= 0:
        return float(min(m, n))
    tail = 0.5 + confidence / 2
    ratio = float(stats.t.ppf(tail, n - 1) / stats.t.ppf(tail, m - 1))
    return min(float(n), p * (1 - p) / variance * ratio**2)


def _defined(values: Tensor, units: Tensor | None) -> tuple[Tensor, Tensor | None, str]:
    keep = ~values.isnan()
    left_out = int((~keep).sum())
    note = f"{left_out} of {len(values)} rows are undefined and left out" if left_out else ""
    return values[keep], units[keep] if units is not None else None, note


def share(
    hits: Float[Tensor, "rows"], units: Int[Tensor, "rows"] | None = None, given: str = "", confidence: float = 0.95
) -> Score:
    """Return the share of rows that are 1, with an exact (or, with units, design-effect corrected) interval.

    Args:
        hits: 1 or 0 for every row; NaN where undefined.
        units: which rows belong together (both directions of a pair); None when rows are independent.
        given: what the interval is conditional on.
        confidence: level of the interval.
    """
    hits, units, note = _defined(hits, units)
    kind = "exact binomial (Clopper-Pearson)" if units is None else "binomial with effective size (Korn-Graubard)"
    kind += f", {given}" if given else ""
    if not len(hits):
        return Score(None, None, None, 0, kind, confidence, note or "undefined: there is nothing to count")
    n = float(len(hits)) if units is None else effective_size(hits, units, confidence)
    value = float(hits.double().mean())
    low, high = clopper_pearson(value * n, n, confidence)
    count = len(hits) if units is None else len(units.unique())
    return Score(value, low, high, count, kind, confidence, note)


def share_of_draws(shares: Float[Tensor, "images"], draws: int, given: str = "", confidence: float = 0.95) -> Score:
    """Return the mean of shares, each from so many draws of one image, with an interval over images and draws.

    The draws of one image are a cluster: the mean's variance v, taken between images, holds both sources of error. It
    gives the number of independent trials that the sample is worth, n_eff = p(1-p) / v · (z / t_{m-1})², at most all
    draws, and the exact binomial interval of that size. Its ends are moved out to where they would be if all images of
    a share u = 1 - (α/2)^(1/m), which m images miss with probability α/2, failed (or held): (1-u) p and p + u (1-p).
    So a sample without a failure and one with a single failing draw say about the same.

    Args:
        shares: successes / draws of every image; NaN where undefined.
        draws: behind each of them.
        given: what the interval is conditional on.
        confidence: level of the interval.

    Source: Korn & Graubard (1998), see `effective_size`.
    """
    shares, _, note = _defined(shares.double(), None)
    kind = "binomial with effective size over images and draws (Korn-Graubard), with room for images not met"
    kind += f", {given}" if given else ""
    m = len(shares)
    if not m:
        return Score(None, None, None, 0, kind, confidence, note)
    value, tail = float(shares.mean()), (1 - confidence) / 2
    variance = float(shares.var()) / m if m > 1 else 0.0
    size = float(m if value in (0.0, 1.0) else m * draws)
    if variance > 0:
        ratio = float(stats.norm.ppf(1 - tail) / stats.t.ppf(1 - tail, m - 1))
        size = min(size, value * (1 - value) / variance * ratio**2)
    low, high = clopper_pearson(value * size, size, confidence)
    unmet = 1 - tail ** (1 / m)
    low, high = min(low, (1 - unmet) * value), max(high, value + unmet * (1 - value))
    return Score(value, low, high, m, kind, confidence, note)


def median(
    values: Float[Tensor, "rows"], units: Int[Tensor, "rows"] | None = None, given: str = "", confidence: float = 0.95
) -> Score:
    """Return the median with an order-statistic interval.

    Independent rows: see `median_ranks`. With units: the ranks are those of Woodruff (1952), from the interval of the
    share below the median with Korn-Graubard's effective size. Where both ends are one value, which many rows have,
    they move on to the nearest values that differ; where none differs there is no interval.

    Args:
        values: one number per row; NaN where undefined.
        units: which rows belong together; None when rows are independent.
        given: what the interval is conditional on.
        confidence: level of the interval.
    """
    values, units, note = _defined(values, units)
    kind = "order statistics" if units is None else "order statistics with effective size (Woodruff)"
    kind += f", {given}" if given else ""
    n = len(values)
    if not n:
        return Score(None, None, None, 0, kind, confidence, note)
    ordered = values.double().sort().values
    middle = float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)
    if units is None:
        ranks, count = median_ranks(n, confidence), n
    else:
        size = effective_size((values <= middle).double(), units, confidence)
        low_share, high_share = clopper_pearson(size / 2, size, confidence)
        ranks, count = (math.floor(n * low_share), math.ceil(n * high_share) + 1), len(units.unique())
    low, high = at_ranks(ordered, ranks)
    if low is None or high is None:
        words = f"{count} are too few for a {confidence:.0%} interval of a median"
    elif low == high:
        low, high, words = _around(ordered, low)
    else:
        words = ""
    return Score(middle, low, high, count, kind, confidence, "; ".join(filter(None, [note, words])))


def median_ranks(n: int, confidence: float = 0.95) -> tuple[int, int]:
    """Return the ranks, counted from 1, of the order statistics that hold the median of n independent values.

    The narrowest symmetric pair whose binomial coverage is at least the level; 0 and n + 1 where there is none.
    """
    tail = (1 - confidence) / 2
    rank = int(stats.binom.ppf(tail, n, 0.5))
    while rank > 0 and stats.binom.cdf(rank - 1, n, 0.5) > tail:
        rank -= 1
    return rank, n - rank + 1


def at_ranks(ordered: Float[Tensor, "rows"], ranks: tuple[int, int]) -> tuple[float | None, float | None]:
    """Return the values at two ranks, counted from 1; None where values are too few to have the rank."""
    low, high = ranks
    return (
        float(ordered[low - 1]) if low >= 1 else None,
        float(ordered[high - 1]) if high <= len(ordered) else None,
    )


def _around(ordered: Float[Tensor, "rows"], value: float) -> tuple[float | None, float | None, str]:
    """Return the nearest values that differ from the one that both ends have; no interval where all are equal."""
    below, above = ordered[ordered < value], ordered[ordered > value]
    if not len(below) and not len(above):
        return None, None, f"all {len(ordered)} values are equal, so their spread is unknown: no interval"
    low, high = float(below[-1]) if len(below) else value, float(above[0]) if len(above) else value
    return low, high, "the middle values are all equal: the interval ends at the nearest that differ"


def mean(
    values: Float[Tensor, "rows"],
    units: Int[Tensor, "rows"] | None = None,
    given: str = "",
    confidence: float = 0.95,
    most: float | None = None,
) -> Score:
    """Return the mean of non-negative, often skewed values (radii, many of them 0) with an interval that knows skew.

    The ends are the outer ones of two intervals: Student's t, x̄ ± t s/√n, and Hall's, which removes the skewness λ,
    [x̄ - s g(t/√n), x̄ - s g(-t/√n)] with g(z) = 3/λ ((1 + λ(z - λ/6n))^(1/3) - 1) and t the quantile of as many degrees
    as s² has, 2n / (κ - 1) with κ the kurtosis, at most n - 1 (Satterthwaite): heavy tails tell less about the spread.
    Student's alone is too short where values are skewed (0.82 instead of 0.95 for 50 values of which 9 in 10 are 0), as
    are bootstrap percentiles with bias correction and acceleration (0.87); Hall's needs no drawing, and the outer ends
    keep the level or exceed it slightly (0.93 to 0.98 in simulations with n >= 20; see tests/truth/test_mean.py).
    Nothing below 0 is returned as lower end where no value is below 0.

    With units the rows of one unit are correlated: each unit u counts as one value, x̄ + m/n Σ_{i in u} (x_i - x̄), whose
    mean is x̄ and whose spread gives the linearised variance.

    Equal values tell nothing about the spread. Where all values lie in [0, most], less than 1 - (α/2)^(1/n) of
    the distribution differs from what was seen n times, and this gives the interval; else there is none.

    Args:
        values: one number per row, in any unit; NaN where undefined.
        units: which rows belong together; None when rows are independent.
        given: what the interval is conditional on.
        confidence: level of the interval.
        most: the largest value possible, where one is known; the interval's limit, and used where all values are equal.

    Source: Hall (1992), "On the removal of skewness by transformation"; Särndal et al. (1992) for linearisation.
    """
    values, units, note = _defined(values.double(), units)
    kind = "outer ends of Student's t and Hall's skewness-corrected interval" + (f", {given}" if given else "")
    if not len(values):
        return Score(None, None, None, 0, kind, confidence, note)
    value = float(values.mean())
    parts = values if units is None else _linearised(values, value, units)
    n, tail = len(parts), (1 - confidence) / 2

    def scored(low: float | None, high: float | None, kind: str = kind, *words: str) -> Score:
        return Score(value, low, high, n, kind, confidence, "; ".join(filter(None, [note, *words])))

    if not math.isfinite(value):
        return scored(None, None, kind, "some values are infinite")
    if n == 1:
        return scored(None, None, kind, "one value has no interval")
    deviation = float(parts.std())
    if deviation <= 1e-12 * float(parts.abs().max()):
        if most is None:
            return scored(None, None, kind, f"all {n} values are equal, so their spread is unknown: no interval")
        same = tail ** (1 / n)
        return scored(same * value, same * value + (1 - same) * most, "exact limit for a sample without exception")
    centred = parts - parts.mean()
    t = float(stats.t.ppf(1 - tail, _freedom(centred))) / math.sqrt(n)
    skew = float(centred.pow(3).mean() / centred.square().mean() ** 1.5)
    low = value - deviation * max(t, _unskewed(t, skew, n))
    high = value + deviation * max(t, -_unskewed(-t, skew, n))
    carriers = int((values != values.mode().values).sum())
    few = f"only {len(values)} values"
    if carriers < len(values) - 1:
        few = f"only {carriers} of {len(values)} values differ from the commonest"
    return scored(
        max(low, 0.0) if values.min() >= 0 else low,
        high if most is None else min(high, most),
        kind,
        f"{few}: the interval may be too short" if carriers < 10 else "",
    )


def _freedom(centred: Float[Tensor, "units"]) -> float:
    """Return the degrees of freedom of the spread of some values, less their mean: 2n / (κ - 1), at most n - 1.

    κ is the kurtosis: heavy tails tell less about the spread (Satterthwaite).
    """
    n, square = len(centred), float(centred.square().mean())
    kurtosis = float(centred.pow(4).mean()) / square**2 if square > 0 else 0.0
    return min(n - 1, 2 * n / (kurtosis - 1)) if kurtosis > 1 else n - 1


def _linearised(values: Float[Tensor, "rows"], value: float, units: Int[Tensor, "rows"]) -> Float[Tensor, "units"]:
    """Return one number per unit whose mean is that of the rows and whose spread is that between units."""
    names, unit = units.unique(return_inverse=True)
    return value + by_unit(values - value, unit) * len(names) / len(values)


def _unskewed(z: float, skew: float, n: int) -> float:
    """Return Hall's g(z): the studentised mean that his transformation maps to z; z itself without skewness."""
    if abs(skew) < 1e-6:
        return z
    return 3 / skew * (math.cbrt(1 + skew * (z - skew / (6 * n))) - 1)


def pair_mean(rows: Float[Tensor, "images"], columns: Float[Tensor, "images"], confidence: float = 0.95) -> Score:
    """Return the mean over ordered pairs (i, j) of a 0/1 event, with an interval that knows that pairs share images.

    The variance is that of a bootstrap over images which resamples every image in both of its roles. To first order
    (Hájek) θ is a sum of influences I_i = [i attacked] (rows_i - θ)/M + (columns_i - θ)/N, so that the bootstrap needs
    no drawing: v = Σ_i (I_i - Ī)², attacked and other images apart. v gives the number of independent pairs that
    the sample is worth, n_eff = θ(1-θ) / v · (z / t)², t with the degrees of freedom that v has, at most M - 1 (see
    `mean`), and n_eff at most all M(N-1) of them; the interval is the binomial
    one of that size, because percentiles of a bootstrap end too low where the event is rare. Where no pair shows the
    event (or all do) there is nothing to resample; the exact limit then is 1 - (α/2)^(1/M), since a mean μ of values
    in [0, 1] leaves M draws all at zero with probability at most (1-μ)^M.

    Args:
        rows: share of the event over j for image i; NaN for images that were not attacked, [N].
        columns: share of the event over i for image j, [N].
        confidence: level of the interval.
    """
    first = ~rows.isnan()
    m, value = int(first.sum()), float(rows[first].double().mean()) if first.any() else math.nan
    kind = "binomial with effective size from the bootstrap variance over images, each in both of its roles"
    tail = (1 - confidence) / 2
    if m == 0:
        return Score(None, None, None, 0, kind, confidence, "no image was attacked")
    if value in (0.0, 1.0):
        limit = 1 - tail ** (1 / m)
        low, high = (0.0, limit) if value == 0 else (1 - limit, 1.0)
        return Score(value, low, high, m, "exact limit for a sample without exception", confidence)
    influence = influence_of_pair_mean(rows, columns)
    strata = [part - part.mean() for part in (influence[first], influence[~first]) if len(part)]
    variance = sum(float(part.square().sum()) for part in strata)
    pairs = float(m * (len(rows) - 1)) if m > 1 else 0.0  # one image tells nothing
    freedom = max(min(m - 1.0, _freedom(torch.cat(strata))), 1.0)
    ratio = float(stats.norm.ppf(1 - tail) / stats.t.ppf(1 - tail, freedom))
    size = min(pairs, value * (1 - value) / variance * ratio**2) if variance > 0 else pairs
    low, high = clopper_pearson(value * size, size, confidence)
    carriers = int((rows[first] > 0).sum())
    those = f"{m} images" if carriers == m else f"{carriers} of {m} images contribute"
    note = f"only {those}: the upper limit may be too low" if carriers < 10 else ""
    return Score(value, low, high, m, kind, confidence, note)


def difference(first: Score, second: Score, correlation: float) -> Score:
    """Return first - second with an interval recovered from theirs and the correlation of the two estimates.

    L = d - √((θ₁-l₁)² + (u₂-θ₂)² - 2ρ(θ₁-l₁)(u₂-θ₂)), U = d + √((u₁-θ₁)² + (θ₂-l₂)² - 2ρ(u₁-θ₁)(θ₂-l₂)).

    ρ is kept below 1 - 1/n, about what one image's disagreement would leave of it (Newcombe's correction does the
    same for shares): so the interval has positive width even where no image tells the encoders apart.

    Args:
        first: score of one encoder.
        second: score of another on the same images.
        correlation: of their per-image influences, in [-1, 1]; 0 gives the unpaired interval.

    Source: Newcombe (1998), method 10, for shares; Zou & Donner (2008), "MOVER", in general.
    """
    n, level = min(first.n, second.n), first.confidence
    correlation = min(correlation, 1 - 1 / max(n, 1))
    kind = f"paired, recovered from both intervals (MOVER), correlation {correlation:.2f}"
    if first.value is None or second.value is None:
        return Score(None, None, None, n, kind, level, "one of the two scores is undefined")
    gap = first.value - second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Score(gap, None, None, n, kind, level, "one of the two scores has no interval")
    below = combined(first.value - first.low, second.high - second.value, correlation)
    above = combined(first.high - first.value, second.value - second.low, correlation)
    return Score(gap, gap - below, gap + above, n, kind, level)


def combined(a: float, b: float, correlation: float) -> float:
    """Return √(a² + b² - 2ρab), how far a difference reaches whose parts reach a and b; of a sum, give -ρ."""
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))


def correlation(a: Float[Tensor, "units"], b: Float[Tensor, "units"]) -> float:
    """Return the correlation of two influences on the same units; 0 where one of them does not vary."""
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    scale = float(a.norm() * b.norm())
    return max(-1.0, min(1.0, float(a @ b) / scale)) if scale > 0 else 0.0


def influence_of_median(values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Return each row's influence on the median, up to a factor: sign(value - median); 0 where undefined."""
    return (values - values.nanmedian()).sign().nan_to_num(0.0)


def influence_of_mean(values: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Return each row's influence on the mean, up to a factor: value - mean; 0 where undefined."""
    return (values - values.nanmean()).nan_to_num(0.0)


def influence_of_pair_mean(rows: Float[Tensor, "images"], columns: Float[Tensor, "images"]) -> Float[Tensor, "images"]:
    """Return each image's influence on the mean over pairs, in both of its roles; see `pair_mean`."""
    first = ~rows.isnan()
    value = rows[first].double().mean()
    influence = (columns.double() - value) / len(columns)
    influence[first] += (rows[first].double() - value) / first.sum()
    return influence


def by_unit(rows: Float[Tensor, "rows"], units: Int[Tensor, "rows"]) -> Float[Tensor, "units"]:
    """Return the sum of rows within each unit."""
    size = int(units.max()) + 1 if len(units) else 0
    return torch.zeros(size, dtype=torch.float64).index_add_(0, units, rows.double())
