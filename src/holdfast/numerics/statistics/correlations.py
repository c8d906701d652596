"""Correlations between two scores over a set of encoders, with intervals: which measure predicts which.

Encoders are few, so the intervals are wide; they say so instead of a p-value. They are about the scores as measured:
a score's own error pulls its correlations towards 0.
"""

import math

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score
from holdfast.numerics.statistics.looks import level

Values = Float[Tensor, "encoders"]


def pearson(a: Values, b: Values, confidence: float = 0.95) -> Score:
    """Pearson's correlation, of a linear relation, with Fisher's interval.

    r = Σ (a-ā)(b-b̄) / √(Σ (a-ā)² Σ (b-b̄)²); tanh(artanh r ± z / √(n-3)), exact for large samples of normal values.
    Points on a line have no interval: r = ±1 leaves nothing to tell its error from.

    Args:
        a: a number for every encoder, in any unit; NaN where undefined, [E].
        b: another one, [E].
        confidence: level of the interval.

    Source: Fisher (1921).

    Example:
        >>> score = pearson(torch.tensor([1.0, 2, 3, 4, 5]), torch.tensor([1.0, 2, 3, 5, 4]))
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.90 in [0.09, 0.99]
    """
    a, b, note = _finite(a, b)
    kind = "Fisher's transformation, points as a sample"
    value, reason = _correlation(a, b)
    if value is None or len(a) < 4:
        return _without_interval(value, len(a), kind, confidence, note, reason)
    if 1 - abs(value) < 1e-12:
        return _without_interval(value, len(a), kind, confidence, note, "all points lie on a line: no interval")
    return _transformed(value, value, 1 / math.sqrt(len(a) - 3), len(a), kind, confidence, note)


def spearman(a: Values, b: Values, confidence: float = 0.95) -> Score:
    """Spearman's correlation, of an order, with the interval of Bonett and Wright.

    r is Pearson's of the ranks, equal values sharing their mean rank; tanh(artanh r ± z √((1 + r²/2) / (n-3))).
    The next value that r can take is 12 / (n³-n) away, so within half of that, r counts as 1 - 6 / (n³-n) (or minus
    this) in the interval, and its end is 1 (or -1): few encoders in perfect order do not prove a perfect relation.
    Keeps its level from 4 encoders on; above |0.95| it is right in 0.93 instead of 0.95 of cases.

    Args:
        a: a number for every encoder, in any unit; NaN where undefined, [E].
        b: another one, [E].
        confidence: level of the interval.

    Source: Bonett & Wright (2000), "Sample size requirements for estimating Pearson, Kendall and Spearman
    correlations".

    Example:
        >>> score = spearman(torch.arange(5), torch.tensor([1.0, 2, 4, 8, 16]))
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        1.00 in [0.16, 1.00]
    """
    a, b, note = _finite(a, b)
    kind = "Fisher's transformation with Bonett and Wright's variance, points as a sample"
    n = len(a)
    value, reason = _correlation(*(torch.from_numpy(scipy.stats.rankdata(column.numpy())) for column in (a, b)))
    if value is None or n < 4:
        return _without_interval(value, n, kind, confidence, note, reason)
    most = 1 - 6 / (n**3 - n)  # half a step of the ranks inside ±1
    inner = max(-most, min(most, value))
    return _transformed(value, inner, math.sqrt((1 + inner**2 / 2) / (n - 3)), n, kind, confidence, note)


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
        if len(column) < 2 or bool((column - column.mean()).norm() <= 1e-12 * column.norm()):
            return None, "undefined: needs two points that differ in both numbers"
    a, b = a - a.mean(), b - b.mean()
    value = float((a / a.norm()) @ (b / b.norm()))
    few = f"{len(a)} points are too few for an interval: it takes 4" if len(a) < 4 else ""
    return max(-1.0, min(1.0, value)), few


def _transformed(value: float, inner: float, error: float, n: int, kind: str, confidence: float, note: str) -> Score:
    """Interval by Fisher's transformation; an end at ±1 where the value is further out than its inner stand-in."""
    reach = float(scipy.stats.norm.ppf(0.5 + level(confidence) / 2)) * error
    low, high = math.tanh(math.atanh(inner) - reach), math.tanh(math.atanh(inner) + reach)
    if inner < value:
        high = 1.0
    if inner > value:
        low = -1.0
    return Score(value, low, high, n, kind, confidence, note)


def _without_interval(value: float | None, n: int, kind: str, confidence: float, *notes: str) -> Score:
    return Score(value, None, None, n, kind, confidence, "; ".join(filter(None, notes)))
