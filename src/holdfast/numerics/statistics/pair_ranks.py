"""The rank correlation of two distances over all pairs of images, in which every image has two roles."""

import math
from collections.abc import Callable

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.means import degrees_of_freedom
from holdfast.numerics.statistics.score import Score

PERFECT = 1e-6
"""What is no further from ±1 is so by rounding: representations are float32."""


def pair_rank_correlation(
    first: Float[Tensor, "pairs"],
    second: Float[Tensor, "pairs"],
    shares: Callable[[Float[Tensor, "pairs"]], Float[Tensor, "images"]],
    confidence: float = 0.95,
) -> Score:
    """Spearman's correlation of two distances over pairs of images, with an interval over images.

    ρ = 12 E[(F - ½)(G - ½)], with F and G the ranks of a pair, as shares, by either distance. What a pair at (x, y)
    contributes to first order is 12 [(F(x) - ½)(G(y) - ½) + E[1(x <= X)(G(Y) - ½)] + E[1(y <= Y)(F(X) - ½)] - 3c], with
    12 c = ρ; what an image does is that of its pairs, twice (Hájek). The interval is Student's of the sum of these
    influences on Fisher's scale, tanh(artanh ρ ± t s / (1 - ρ²)).

    Where the order is perfect there is nothing to tell the error from. Then a share q = 1 - (α/2)^(1/N) of the images
    could be otherwise and none be met; 1 - ρ = 6 E[(F-G)²] is at most 6 for their pairs, a share 1 - (1-q)² of all.

    Args:
        first: distances by one encoder, [P].
        second: by the other, [P].
        shares: returns what each image contributes to a mean over pairs, see `ImagePairs.shares`.
        confidence: level of the interval.

    Source: Borkowf (2002), "Computing the nonnull asymptotic variance and the asymptotic relative efficiency of
    Spearman's rank correlation"; Arvesen (1969), "Jackknifing U-statistics".

    Example:
        >>> from holdfast.numerics.geometry.image_pairs import ImagePairs
        >>> pairs, reps = ImagePairs(30, torch.empty(0, 2, dtype=torch.long)), torch.linspace(0, 1, 30)[:, None]
        >>> from holdfast.parts.divergences.l2 import L2
        >>> apart = pairs.distances(reps, L2())
        >>> score = pair_rank_correlation(apart, 3 * apart, pairs.shares)
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}] from {score.n} images")
        1.00 in [-0.31, 1.00] from 30 images
    """
    kind = "Student's t on Fisher's scale, over images in both roles of their pairs"
    # F - ½ and G - ½ of each pair
    u, v = (_centre_ranks(values) for values in (first, second))
    size = math.sqrt(float(u.square().sum() * v.square().sum()))
    if not size:
        n = len(shares(torch.zeros_like(u)))
        return Score(None, None, None, n, kind, confidence, "undefined: all distances are equal to one of the encoders")
    # Spearman's is Pearson's of the ranks, also where distances are equal
    value = max(-1.0, min(1.0, float(u @ v) / size))
    # The two further terms are what the pair does to the ranks of the others; constants go with the mean
    influence = 12 * (u * v + _above(first, v) + _above(second, u))
    moves = shares(influence - influence.mean())
    n, tail = len(moves), (1 - level(confidence)) / 2

    def build_score(low: float, high: float, kind: str = kind) -> Score:
        return Score(value, max(low, -1.0), min(high, 1.0), n, kind, confidence, "")

    if 1 - abs(value) < PERFECT:
        unmet = 1 - tail ** (1 / n)
        reach = 6 * (1 - (1 - unmet) ** 2)
        kind = "exact limit for a sample without exception"
        return build_score(1 - reach, 1.0, kind) if value > 0 else build_score(-1.0, reach - 1, kind)
    # Twice: an image is in both places of a pair. dρ is (1 - ρ²) d artanh ρ
    error = 2 * float(moves.std()) / math.sqrt(n) / (1 - value**2)
    reach = float(scipy.stats.t.ppf(1 - tail, max(degrees_of_freedom(moves - moves.mean()), 1.0))) * error
    middle = math.atanh(value)
    return build_score(math.tanh(middle - reach), math.tanh(middle + reach))


def _centre_ranks(values: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
    """Ranks as shares of the pairs, less ½; equal values share their mean rank."""
    ranks = torch.from_numpy(scipy.stats.rankdata(values.numpy()))
    # ½ is taken off a rank, which counts the pair itself
    return (ranks - 0.5) / len(values) - 0.5


def _above(values: Float[Tensor, "pairs"], others: Float[Tensor, "pairs"]) -> Float[Tensor, "pairs"]:
    """E[1(x <= X) (others)] at the value x of each pair."""
    # From the largest on: each pair's sum is over those at or above it
    order = values.argsort(descending=True, stable=True)
    result = torch.empty_like(others)
    result[order] = others[order].cumsum(0) / len(others)
    return result
