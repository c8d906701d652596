"""Universal quantiles: where drifts lie among the distances of all pairs, and the interval of their median.

The median θ = F(m) over images has two sources of error: which images were attacked, hence m, the median drift, and
which pairs of images there are, hence F. The second does not vanish beside the first as images grow in number, and
rules where few pairs lie below m.
"""

import math
from dataclasses import dataclass, replace

import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.circle import Circle
from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.medians import middle
from holdfast.numerics.statistics.proportions import effective_trials
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic

KIND = "order statistics of the drift and binomial with effective size of the pairs (U-statistic), combined (MOVER)"


def place(
    bank: Float[Tensor, "population dim"],
    drifts: Float[Tensor, "columns images"],
    divergence: Divergence,
    circle: Circle | None = None,
) -> tuple[Float[Tensor, "columns population"], Float[Tensor, "columns population"], Float[Tensor, "population"]]:
    """Quantile of each drift among all pairs, and the influence of each image of the population on their medians.

    Args:
        bank: clean representations, [N, D].
        drifts: of the first images of the population, NaN where undefined, one row for each median, [C, M].
        divergence: how representations are compared.
        circle: which pairs are compared, see `sampled_pairs.circle`; None: all.

    Returns:
        quantiles: q = F(drift), NaN for images that have none, [C, N].
        near: u_i(m), the share of the pairs with image i that lie at or below the median drift m, so that its mean over
            i is the median quantile; the mean of both where two drifts are in the middle, [C, N].
        near_mean: the same for the median over images of the mean over rows, [N].

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [3.0]])
        >>> quantiles, *_ = place(bank, torch.tensor([[0.5, 1.5]]), L2())
        >>> quantiles  # of the pairs' distances 1, 2 and 3
        tensor([[0.0000, 0.3333,    nan]], dtype=torch.float64)
    """
    # F at every drift; then, at the median drift, the share of each image's own pairs
    shares = pairwise.share_below(bank, drifts, divergence, circle)
    # The drifts in the middle: of each row, and of the mean over rows, [C, 4]
    columns = torch.stack([row[_middle(q)] for row, q in zip(drifts, shares, strict=True)])
    limits = torch.cat([columns, drifts[:, _middle(shares.mean(0))]], 1)
    different, number = limits.double().unique(return_inverse=True)
    # One pass over the pairs for all of them; several rows may share one
    near = pairwise.near(bank, different, divergence, circle).T[number]  # [C, 4, N]
    return pad_to_population(shares, len(bank)), near[:, :2].mean(1), near[:, 2:].mean((0, 1))


def pad_to_population(
    values: Float[Tensor, "*columns images"], population: int
) -> Float[Tensor, "*columns population"]:
    """Values of the first images of a population with NaN for the others, in float64.

    Example:
        >>> pad_to_population(torch.tensor([0.1, 0.2]), population=3)
        tensor([0.1000, 0.2000,    nan], dtype=torch.float64)
    """
    rows = torch.full((*values.shape[:-1], population), torch.nan, dtype=torch.float64)
    rows[..., : values.shape[-1]] = values
    return rows


def _middle(values: Float[Tensor, "images"]) -> Int[Tensor, "two"]:
    """Positions of the two middle values, the same one twice where their number is odd; NaN come last."""
    order, count = values.argsort(stable=True), int((~values.isnan()).sum())
    return order[[max(count - 1, 0) // 2, min(count // 2, len(values) - 1)]]


def median(
    quantiles: Float[Tensor, "population"],
    near: Float[Tensor, "population"],
    confidence: float = 0.95,
    *,
    partners: int | None = None,
) -> Score:
    """Median of universal quantiles with an interval over images in both roles: attacked, and in pairs.

    As images vary, so do m (order statistics, l₁ and u₁) and F(m). The pairs' share is a U-statistic; to first order
    (Hájek) image i moves it by 2 (u_i - θ) / N, and v = Σ 4 (u_i - θ)² / N² gives the number of independent pairs that
    it is worth, n_eff = θ(1-θ) / v · (z / t_{N-1})², at most all of them, and half of them where no pair (or every one)
    lies below. Its binomial interval [l₂, u₂] and the first one are combined, with the correlation ρ of what each image
    contributes to both:

        low = θ - √((θ-l₁)² + (θ-l₂)² + 2ρ(θ-l₁)(θ-l₂)), high likewise.

    v counts what independent pairs add twice, so the interval is up to √2 times too long where few pairs lie below.

    Args:
        quantiles: see `place`.
        near: see `place`.
        confidence: level of the interval.
        partners: with how many others each image was compared; None: all.

    Source: Hoeffding (1948) for U-statistics; Korn & Graubard (1998); Zou & Donner (2008), "MOVER".

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.arange(20.0)[:, None]
        >>> quantiles, near, _ = place(bank, torch.full((1, 20), 1.5), L2())
        >>> score = median(quantiles[0], near[0])
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.10 in [0.06, 0.15]
    """
    drifts = _Drifts.of(quantiles, confidence)
    images = len(near)
    of_each = images - 1 if partners is None else partners
    kind = sampled_pairs.describe_interval(KIND, images, of_each)
    score = Score(drifts.value, None, None, drifts.n, kind, confidence)
    if drifts.value is None:
        return replace(score, note="no image has a quantile")
    if drifts.low is None or drifts.high is None:
        return replace(score, note=f"{drifts.n} are too few for a {confidence:.0%} interval of a median")
    # What each image moves by being attacked, and by the pairs that it is in
    value, by_drift, by_pairs = drifts.value, *_influences(quantiles, near, drifts)
    rho = float(by_drift @ by_pairs / (by_drift.norm() * by_pairs.norm()).clamp_min(1e-300))

    # combine both sources of error, correlated as their influences are (MOVER for a sum)
    low, high = statistics.clopper_pearson(*_trials(value, by_pairs, of_each, confidence), confidence)
    below = statistics.combine_reaches(value - drifts.low, value - low, -rho)
    above = statistics.combine_reaches(drifts.high - value, high - value, -rho)
    return replace(score, low=max(value - below, 0.0), high=min(value + above, 1.0))


def influence(quantiles: Float[Tensor, "population"], near: Float[Tensor, "population"]) -> Float[Tensor, "population"]:
    """Influence of each image on the median universal quantile, by its drift and by its pairs; see `median`.

    An image above the median raises it by √(variance of the median over images / M): Woodruff's, from its interval.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.arange(5.0)[:, None]
        >>> quantiles, near, _ = place(bank, torch.tensor([[0.5, 1.5, 2.5, 1.5, 0.5]]), L2())
        >>> influence(quantiles[0], near[0]).argmax().item()
        1
    """
    by_drift, by_pairs = _influences(quantiles, near, _Drifts.of(quantiles, 0.95))
    return (by_drift + by_pairs).nan_to_num(0.0)


@dataclass(frozen=True, eq=False)
class MedianQuantile(Statistic):
    """The median of universal quantiles, see `median`.

    Attributes:
        quantiles: see `place`.
        near: see `place`.
        partners: with how many others each image was compared; None: all.
    """

    quantiles: Float[Tensor, "population"]
    near: Float[Tensor, "population"]
    partners: int | None = None

    def score(self) -> Score:
        """Return the median."""
        return median(self.quantiles, self.near, partners=self.partners)

    def influence(self) -> Influence:
        """Return the influence of each image, by its drift and by its pairs."""
        return influence(self.quantiles, self.near)


@dataclass(frozen=True)
class _Drifts:
    """The median with order statistics alone, as if the pairs that there are were all."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    confidence: float

    @classmethod
    def of(cls, quantiles: Tensor, confidence: float) -> "_Drifts":
        ordered = quantiles[~quantiles.isnan()].double().sort().values
        n = len(ordered)
        if not n:
            return cls(None, None, None, 0, confidence)
        low, high = statistics.at_ranks(ordered, statistics.median_ranks(n, confidence))
        return cls(middle(ordered), low, high, n, confidence)


def _influences(quantiles: Tensor, near: Tensor, drifts: _Drifts) -> tuple[Tensor, Tensor]:
    """Contribution of each image by its drift and by its pairs; their squares add up to both variances."""
    # Half the interval over its normal quantile is the standard error, whose square all images share equally
    reach = 0.0 if drifts.low is None or drifts.high is None else (drifts.high - drifts.low) / 2
    deviation = reach / float(scipy.stats.norm.ppf(0.5 + level(drifts.confidence) / 2))
    above = (quantiles - (drifts.value or 0.0)).sign().nan_to_num(0.0)
    return above * deviation / math.sqrt(max(drifts.n, 1)), sampled_pairs.moves(near)


def _trials(value: float, by_pairs: Tensor, partners: int, confidence: float) -> tuple[float, float]:
    """Successes and trials of the share of pairs of some images: those that its variance is worth."""
    # Effective trials: at most all pairs, half of them where none (or every one) lies below
    pairs, variance = len(by_pairs) * partners / 2, float(by_pairs.square().sum())
    most = pairs if 0 < value < 1 else pairs / 2
    size = effective_trials(value, variance, len(by_pairs) - 1, most, confidence)
    return value * size, size
