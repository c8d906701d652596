"""Several seeds of a method on the same images: intervals of means and differences over both, images and seeds.

A method's number is the mean of its seeds', θ̄ = Σ θ_k / K. Other images move it as their contributions to the seeds go
together: from seed k's own interval, which reaches r_k from θ_k, and the correlations ρ_jk of what each image
contributes, √(Σ_jk ρ_jk r_j r_k) / K (MOVER). Other seeds move it by t s / √K, s their standard deviation and t
Student's quantile with K - 1 degrees of freedom. The interval reaches as far as both, added in squares.

With random effects of images I, of seeds S and of both, the variance is σ_I²/N + σ_S²/K + σ_SI²/(NK), and the two
parts hold its last term twice: on the safe side. Of two methods the images are paired, and count with opposite signs;
the seeds are not, so s²/K + s'²/K' is their variance, with Welch and Satterthwaite's degrees of freedom.

Next to Student's interval of the summed variance it is 1.1 to 1.5 times as long for three to five seeds, and keeps its
level where seeds differ more than images, which that one does not (0.92 instead of 0.95 for three seeds).

Source: Owen & Eckles (2012), "Bootstrapping data arrays of arbitrary order", for the variance of crossed effects;
Zou & Donner (2008) for MOVER; Welch (1947).
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy
from jaxtyping import Float

from holdfast.numerics.statistics.levels import ALPHAS, Levels, Reach, p_of_reach, reach
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.score import Score

Correlations = Float[np.ndarray, "seeds seeds"]


def mean_over_seeds(scores: Sequence[Score], correlations: Correlations) -> Score:
    """Mean of the scores of a method's seeds on the same images, with an interval over images and seeds.

    Args:
        scores: of the seeds, two or more.
        correlations: of what each image contributes to them, [K, K].

    Example:
        >>> seeds = [Score(v, v - 0.1, v + 0.1, 100, "t") for v in (0.7, 0.8, 0.9)]
        >>> score = mean_over_seeds(seeds, np.eye(3))
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.80 in [0.54, 1.06]
    """
    kind = f"over images and {len(scores)} seeds, recovered from the intervals of both (MOVER)"
    return _combine(scores, [1 / len(scores)] * len(scores), correlations, kind)[0]


def difference_over_seeds(
    first: Sequence[Score], second: Sequence[Score], correlations: Correlations
) -> tuple[Score, float | None]:
    """Difference first - second of two methods' means, with its interval over images and seeds, and its p-value.

    Args:
        first: scores of one method's seeds, two or more.
        second: scores of another's on the same images.
        correlations: of what each image contributes to all of them, those of `first` before: [K + K', K + K'].

    Returns:
        the difference, and 1 - the highest level at which its interval excludes zero; None without an interval.

    Example:
        >>> first, second = ([Score(v + d, v + d - 0.1, v + d + 0.1, 100, "t") for d in (-0.01, 0.01)] for v in (3, 2))
        >>> gap, p = difference_over_seeds(first, second, np.eye(4))
        >>> print(f"{gap.value:.2f} in [{gap.low:.2f}, {gap.high:.2f}]", p < 0.001)
        1.00 in [0.88, 1.12] True
    """
    kind = f"paired over images, not over {len(first)} and {len(second)} seeds, recovered from the intervals (MOVER)"
    weights = [1 / len(first)] * len(first) + [-1 / len(second)] * len(second)
    return _combine([*first, *second], weights, correlations, kind)


def _combine(
    scores: Sequence[Score], weights: Sequence[float], correlations: Correlations, kind: str
) -> tuple[Score, float | None]:
    """Return Σ w_k θ_k with its interval, and its p-value; weights of one sign are of one method."""
    # without a number of each seed there is none of the method
    n, confidence = min(score.n for score in scores), scores[0].confidence
    values = [score.value for score in scores if score.value is not None and math.isfinite(score.value)]
    if len(values) < len(scores):
        note = f"{len(scores) - len(values)} of {len(scores)} seeds have no number"
        return Score(None, None, None, n, kind, confidence, note), None
    value = math.fsum(weight * value for weight, value in zip(weights, values, strict=True))
    reaches = [found for score in scores if (found := reach(score))]
    if len(reaches) < len(scores):
        note = f"{len(scores) - len(reaches)} of {len(scores)} seeds have no interval"
        return Score(value, None, None, n, kind, confidence, note), None
    # over images: below 1 between methods, or no image would tell two apart that agree
    apart = np.multiply.outer(weights, weights) < 0
    rho = np.where(apart, np.minimum(correlations, 1 - 1 / max(n, 1)), correlations)
    below = [w * (r.below if w > 0 else r.above) for w, r in zip(weights, reaches, strict=True)]
    above = [w * (r.above if w > 0 else r.below) for w, r in zip(weights, reaches, strict=True)]
    # and over seeds
    methods = [[v for v, w in zip(values, weights, strict=True) if w * sign > 0] for sign in (1, -1)]
    by_seeds = _reach_of_seeds([method for method in methods if method])
    whole = Reach(*(np.hypot(_add(np.stack(side), rho), by_seeds) for side in (below, above)))
    down, up = whole.at(1 - confidence)
    same = "all seeds have the same number, so the interval is over images alone"
    score = Score(value, value - down, value + up, n, kind, confidence, "" if by_seeds.any() else same)
    return score, p_of_reach(value, whole.below if value > 0 else whole.above)


def _add(parts: Float[np.ndarray, "seeds levels"], correlations: Correlations) -> Levels:
    """Return how far a sum reaches whose parts reach so far."""
    return np.sqrt(np.maximum(np.einsum("ja,jk,ka->a", parts, correlations, parts), 0))


def _reach_of_seeds(methods: Sequence[Sequence[float]]) -> Levels:
    """Return how far the mean of a method's seeds, or the difference of two, reaches at each of `ALPHAS`."""
    # seeds that agree to the last digit tell nothing of others
    variances = [float(np.var(m, ddof=1)) / len(m) if len(set(m)) > 1 else 0.0 for m in methods]
    if not (total := math.fsum(variances)):
        return np.zeros_like(ALPHAS)
    freedom = total**2 / math.fsum(v**2 / (len(m) - 1) for v, m in zip(variances, methods, strict=True))
    return scipy.stats.t.isf(ALPHAS * (1 - level(0.0)) / 2, freedom) * math.sqrt(total)  # at this look
