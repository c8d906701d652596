"""Paired differences of two scores, by MOVER: the method of variance estimates recovery."""

import math

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.score import Score


def difference(first: Score, second: Score, correlation: float) -> Score:
    """Difference first - second, with an interval recovered from theirs and the correlation of the two estimates.

    L = d - √((θ₁-l₁)² + (u₂-θ₂)² - 2ρ(θ₁-l₁)(u₂-θ₂)), U = d + √((u₁-θ₁)² + (θ₂-l₂)² - 2ρ(u₁-θ₁)(θ₂-l₂)).

    ρ is kept below 1 - 1/n, about what one image's disagreement would leave of it (Newcombe's correction does the
    same for shares): so the interval has positive width even where no image tells the encoders apart.

    Args:
        first: score of one encoder.
        second: score of another on the same images.
        correlation: of their per-image influences, in [-1, 1]; 0 gives the unpaired interval.

    Source: Newcombe (1998), method 10, for shares; Zou & Donner (2008), "MOVER", in general.

    Example:
        >>> first, second = (Score(v, v - 0.1, v + 0.1, 100, "t", 0.95, "") for v in (0.8, 0.7))
        >>> gap = difference(first, second, correlation=0.9)
        >>> print(f"{gap.value:.2f} in [{gap.low:.3f}, {gap.high:.3f}]")
        0.10 in [0.055, 0.145]
    """
    n, level = min(first.n, second.n), first.confidence
    # Below 1, or no image would tell the two apart and the interval have no width
    rho = min(correlation, 1 - 1 / max(n, 1))
    kind = f"paired, recovered from both intervals (MOVER), correlation {rho:.2f}"
    if first.value is None or second.value is None:
        return Score(None, None, None, n, kind, level, "one of the two scores is undefined")
    gap = first.value - second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Score(gap, None, None, n, kind, level, "one of the two scores has no interval")
    below = combine_reaches(first.value - first.low, second.high - second.value, rho)
    above = combine_reaches(first.high - first.value, second.value - second.low, rho)
    return Score(gap, gap - below, gap + above, n, kind, level)


def combine_reaches(a: float, b: float, correlation: float) -> float:
    """How far a difference reaches whose parts reach a and b, √(a² + b² - 2ρab); for a sum, pass -ρ.

    Example:
        >>> combine_reaches(3, 4, correlation=0.0)
        5.0
    """
    return math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b))  # a² + b² >= 2ab but for rounding


def correlation(a: Float[Tensor, "units"], b: Float[Tensor, "units"]) -> float:
    """Correlation of two influences on the same units; 0 where one of them does not vary.

    Example:
        >>> round(correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.0])), 6)
        1.0
    """
    return correlation_of(centre(a), centre(b))


def centre(a: Float[Tensor, "units"]) -> tuple[Tensor, Tensor]:
    """Return influences less their mean, and the norm of that: what many correlations are made of.

    Example:
        >>> apart, norm = centre(torch.tensor([1.0, 3.0]))
        >>> apart.tolist(), round(float(norm), 4)
        ([-1.0, 1.0], 1.4142)
    """
    apart = a.double() - a.double().mean()
    return apart, apart.norm()


def correlation_of(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> float:
    """Correlation of what `centre` has returned.

    Example:
        >>> a, b = centre(torch.tensor([1.0, 3.0])), centre(torch.tensor([5.0, 4.0]))
        >>> round(correlation_of(a, b), 6)
        -1.0
    """
    scale = float(a[1] * b[1])
    return max(-1.0, min(1.0, float(a[0] @ b[0]) / scale)) if scale > 0 else 0.0
