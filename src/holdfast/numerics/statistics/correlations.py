"""Correlations between two scores over a set of encoders, with intervals: which measure predicts which.

Encoders are few, so the intervals are wide; they say so instead of a p-value. They are about the scores as measured:
a score's own error pulls its correlations towards 0.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.means import degrees_of_freedom
from holdfast.numerics.statistics.score import Score

Values = Float[Tensor, "encoders"]


def pearson(a: Values, b: Values, confidence: float = 0.95) -> Score:
    """Pearson's correlation, of a linear relation, with an interval that knows skew, heavy tails and bends.

    r = Σ (a-ā)(b-b̄) / √(Σ (a-ā)² Σ (b-b̄)²); tanh(artanh r ± h) with h the larger of Fisher's z / √(n-3), which is exact
    for large samples of normal values and far too short for others (0.5 instead of 0.95 for 40 values with Pareto's
    tails), and √((t s)² + (artanh r - artanh r_s)²). s is the jackknife's standard error of artanh r, t Student's
    quantile with the degrees of freedom that s has (see `mean`). r_s is Spearman's correlation: where values and their
    ranks disagree, r hangs on few points far out, or on a bend, and what lies farther out than any point may move it
    as much again. Few points of heavy tails say next to nothing, and their interval says so.
    Points on a line have no interval: r = ±1 leaves nothing to tell its error from.

    Args:
        a: a number for every encoder, in any unit; NaN where undefined, [E].
        b: another one, [E].
        confidence: level of the interval.

    Source: Fisher (1921); Efron & Stein (1981), "The jackknife estimate of variance".

    Example:
        >>> score = pearson(torch.tensor([1.0, 2, 3, 4, 5, 6]), torch.tensor([1.0, 2, 4, 3, 5, 6]))
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.94 in [-0.05, 1.00]
    """
    a, b, note = _finite(a, b)
    kind = "Fisher's transformation, the wider of normal theory and jackknife, points as a sample"
    n = len(a)
    value, reason = _correlation(a, b)
    if value is None or n < 4:
        return _without_interval(value, n, kind, confidence, note, reason)
    # Fisher's transform has no end at ±1
    if 1 - abs(value) < 1e-12:
        return _without_interval(value, n, kind, confidence, note, "all points lie on a line: no interval")
    z = _ndtri(confidence)
    # The jackknife on Fisher's scale; 1 - 1e-12 keeps what is a line without some point finite
    parts = _without_each(a, b, lambda a, b: _correlation(a, b)[0], 1 - 1e-12)
    t = float(scipy.stats.t.ppf(0.5 + level(confidence) / 2, max(degrees_of_freedom(parts), 1.0)))
    # How far values and their ranks disagree, on the same scale
    ranks = _inside(_correlation(_ranks(a), _ranks(b))[0] or 0.0, n)
    bent = math.hypot(t * _error(parts), math.atanh(value) - math.atanh(ranks))
    return _build_fisher_score(value, value, max(z / math.sqrt(n - 3), bent), n, kind, confidence, note)


def pearson_given(
    a: Values, b: Values, errors: Float[Tensor, "twice_encoders twice_encoders"], images: int, confidence: float = 0.95
) -> Score:
    """Pearson's correlation of the encoders named, and no others, with an interval for the images that were drawn.

    r as in `pearson`; tanh(artanh r ± z s / (1 - r²)), s² = ∇r' Σ ∇r with Σ the covariance of all scores. With
    u = (a-ā)/‖a-ā‖ and v = (b-b̄)/‖b-b̄‖ the gradient is (v - r u)/‖a-ā‖ in a and (u - r v)/‖b-b̄‖ in b. Errors of the
    scores pull r to 0, so the end farther from 0 is that of r / √(ρ_a ρ_b) instead, where ρ = 1 - χ² σ² / ‖a-ā‖² is the
    share of a column's variance that is left by errors of variance σ², χ² the quantile of the confidence.

    Where `pearson` asks what the correlation would be over all encoders of the kind, this one asks what it would be of
    these, had all images been seen; three encoders are enough.

    Args:
        a: a number for every encoder, in any unit, [E].
        b: another one, [E].
        errors: covariance of all their estimates, those of a before those of b, [2E, 2E].
        images: how many images they are of.
        confidence: level of the interval.

    Source: the delta method, on Fisher's scale; Spearman (1904), "The proof and measurement of association between two
    things", for what errors take away.

    Example:
        >>> a = torch.tensor([0.02, 0.17, 0.24])
        >>> score = pearson_given(a, torch.tensor([0.0, 0.83, 0.88]), 1e-4 * torch.eye(6), 100)
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.96 in [0.91, 0.99]
    """
    kind = "Fisher's transformation and the delta method, over images, given the encoders"
    a, b, errors = (values.detach().cpu().double() for values in (a, b, errors))
    value, reason = _correlation(a, b)
    if value is None:
        return _without_interval(value, images, kind, confidence, reason)
    if 1 - abs(value) < 1e-12:
        return _without_interval(value, images, kind, confidence, "all points lie on a line: no interval")
    apart = a - a.mean(), b - b.mean()
    (u, v), (first, second) = (x / x.norm() for x in apart), (x.norm() for x in apart)
    gradient = torch.cat([(v - value * u) / first, (u - value * v) / second])
    error = math.sqrt(max(float(gradient @ errors @ gradient), 0.0)) / (1 - value**2)
    score = _build_fisher_score(value, value, _ndtri(confidence) * error, images, kind, confidence, "")
    # Errors pull r to 0: what they may have taken away at most, [low, high] or the mirror image of it for r < 0
    most = float(scipy.stats.chi2.ppf(0.5 + level(confidence) / 2, len(a) - 1))
    own = (float(noise.mean()) for noise in errors.diagonal().chunk(2))
    shares = [1 - most * noise / float(x.square().sum()) for noise, x in zip(own, apart, strict=True)]
    freed = abs(value) / math.sqrt(shares[0] * shares[1]) if min(shares) > 0 else 1.0
    far = 1.0 if freed >= 1 else math.tanh(math.atanh(freed) + _ndtri(confidence) * error)
    return replace(score, high=far) if value > 0 else replace(score, low=-far)


def spearman(a: Values, b: Values, confidence: float = 0.95) -> Score:
    """Spearman's correlation, of an order, with the wider interval of Bonett and Wright's and the jackknife's.

    r is Pearson's of the ranks, equal values sharing their mean rank; tanh(artanh r ± h), with h the larger one of
    z √((1 + r²/2) / (n-3)), right for normal values, and t s, with s the jackknife's standard error of artanh r and t
    Student's quantile with n-2 degrees of freedom; the latter knows the pairs that are far out in both.
    The next value that r can take is 12 / (n³-n) away, so within half of that, r counts as 1 - 6 / (n³-n) (or minus
    this) in the interval, and its end is 1 (or -1): few encoders in perfect order do not prove a perfect relation.

    Args:
        a: a number for every encoder, in any unit; NaN where undefined, [E].
        b: another one, [E].
        confidence: level of the interval.

    Source: Bonett & Wright (2000), "Sample size requirements for estimating Pearson, Kendall and Spearman
    correlations"; Efron & Stein (1981), see `pearson`.

    Example:
        >>> score = spearman(torch.arange(5), torch.tensor([1.0, 2, 4, 8, 16]))
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        1.00 in [0.16, 1.00]
    """
    a, b, note = _finite(a, b)
    kind = "Fisher's transformation, the wider of Bonett and Wright's variance and jackknife, points as a sample"
    n = len(a)
    value, reason = _correlation(_ranks(a), _ranks(b))
    if value is None or n < 4:
        return _without_interval(value, n, kind, confidence, note, reason)
    # Half a step inside ±1, where ranks are in perfect order
    inner = _inside(value, n)
    parts = _without_each(a, b, lambda a, b: _correlation(_ranks(a), _ranks(b))[0], _most(n - 1))
    t = float(scipy.stats.t.ppf(0.5 + level(confidence) / 2, n - 2))
    reach = max(_ndtri(confidence) * math.sqrt((1 + inner**2 / 2) / (n - 3)), t * _error(parts))
    return _build_fisher_score(value, inner, reach, n, kind, confidence, note)


def _finite(a: Values, b: Values) -> tuple[Tensor, Tensor, str]:
    """Encoders with two finite numbers, in float64, and a note about the others."""
    a, b = a.detach().cpu().double(), b.detach().cpu().double()
    finite = a.isfinite() & b.isfinite()
    left_out = int((~finite).sum())
    note = (
        f"{left_out} of {len(a)} points are left out: one of their two numbers is undefined or infinite"
        if left_out
        else ""
    )
    return a[finite], b[finite], note


def _correlation(a: Values, b: Values) -> tuple[float | None, str]:
    """Correlation, or why there is none, and why it has no interval where points are few."""
    for column in (a, b):
        # Equal but for rounding
        if len(column) < 2 or bool((column - column.mean()).norm() <= 1e-12 * column.norm()):
            return None, "undefined: needs two points that differ in both numbers"
    a, b = a - a.mean(), b - b.mean()
    # Unit vectors first: the product of both norms may overflow where neither does
    value = float((a / a.norm()) @ (b / b.norm()))
    few = f"{len(a)} points are too few for an interval: it takes 4" if len(a) < 4 else ""
    return max(-1.0, min(1.0, value)), few


def _ranks(values: Values) -> Values:
    """Ranks, equal values sharing their mean rank."""
    return torch.from_numpy(scipy.stats.rankdata(values.numpy()))


def _most(n: int) -> float:
    """Half a step of the ranks of n points inside 1."""
    return 1 - 6 / (n**3 - n)


def _inside(value: float, n: int) -> float:
    """A correlation of ranks, at least half a step inside ±1."""
    return max(-_most(n), min(_most(n), value))


def _without_each(a: Values, b: Values, correlate: Callable[[Values, Values], float | None], most: float) -> Values:
    """Fisher's transforms of the correlation without each point, at most so far out, less their mean, [n]."""
    kept = ~torch.eye(len(a), dtype=torch.bool)
    # Where a point is all that differs, the others have no correlation: 0
    values = [correlate(a[rows], b[rows]) or 0.0 for rows in kept]
    z = torch.tensor(values, dtype=torch.float64).clamp(-most, most).atanh()
    return z - z.mean()


def _error(parts: Values) -> float:
    """The jackknife's standard error of what has these values without each point, less their mean."""
    return math.sqrt(float(parts.square().sum()) * (len(parts) - 1) / len(parts))


def _ndtri(confidence: float) -> float:
    return float(scipy.stats.norm.ppf(0.5 + level(confidence) / 2))


def _build_fisher_score(
    value: float, inner: float, reach: float, n: int, kind: str, confidence: float, note: str
) -> Score:
    """Interval by Fisher's transformation; an end at ±1 where the value is further out than its inner stand-in."""
    low, high = math.tanh(math.atanh(inner) - reach), math.tanh(math.atanh(inner) + reach)
    if inner < value:
        high = 1.0
    if inner > value:
        low = -1.0
    return Score(value, low, high, n, kind, confidence, note)


def _without_interval(value: float | None, n: int, kind: str, confidence: float, *notes: str) -> Score:
    return Score(value, None, None, n, kind, confidence, "; ".join(filter(None, notes)))
