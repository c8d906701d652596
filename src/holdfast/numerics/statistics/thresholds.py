"""Thresholds, the distance that a rate of all pairs of images lies below, and shares at one that is an estimate.

Which images there are decides the share, given the threshold, and the threshold. The second does not vanish beside the
first, and rules where few pairs lie below the threshold.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.broken_median import BrokenMedian
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.medians import middle
from holdfast.numerics.statistics.proportions import effective_trials
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic


class AtThreshold(Statistic):
    """A number that depends on a threshold, which is the quantile of the pairs' distances at a rate.

    To first order (Hájek) image i moves the share of pairs below a threshold by 2 (u_i - ū) / N, with u_i the share of
    its own pairs there. v = Σ 4 (u_i - ū)² / N² gives the number of independent pairs that these are worth, and their
    binomial interval [r₁, r₂] around the rate. The thresholds of these rates hold that of all such images (Woodruff);
    the numbers there, and the interval of the number given the threshold, are combined with the correlation of what
    each image contributes to both (MOVER).

    Attributes:
        near: u_i, [N].
        rate: of the pairs.
        pairs: how many are compared.
        partners: with how many others each image is; None: all.
        most: the largest number possible.

    Source: Woodruff (1952), "Confidence intervals for medians and other position measures"; Korn & Graubard (1998); Zou
    & Donner (2008), "MOVER".
    """

    near: Float[Tensor, "population"]
    rate: float
    pairs: float
    partners: int | None
    most: float = 1.0

    @abstractmethod
    def score_at_threshold(self) -> Score:
        """Return the score with the interval given the threshold."""

    @abstractmethod
    def at(self, rate: float) -> float:
        """Return the number at the threshold of a rate."""

    @abstractmethod
    def weigh_values(self) -> Float[Tensor, "population"]:
        """Return what each image contributes to the number by its own value."""

    def score(self) -> Score:
        """Return the number with an interval over images in both roles."""
        # The interval given the threshold; without one there is nothing to widen
        score = self.score_at_threshold()
        if score.value is None or score.low is None or score.high is None:
            return score
        # Woodruff: the numbers at the thresholds of the interval's rates
        ends = [self.at(rate) for rate in self._rates(score.confidence)]
        if not all(map(math.isfinite, ends)):
            # Such as a median where half of the images were not broken: nothing to combine
            note = "; ".join(filter(None, [score.note, "no number at an end of the threshold's interval"]))
            return replace(score, low=None, high=None, note=note)
        by_value, by_pairs = self._influences(score.confidence)
        lengths = by_value.norm() * by_pairs.norm()
        most = 1 - 1 / max(score.n, 1)  # as in `statistics.difference`: what one image's disagreement would leave
        rho = max(-most, min(most, float(by_value @ by_pairs / lengths))) if lengths > 0 else 0.0
        least, most = min(*ends, score.value), max(*ends, score.value)
        # A sum of two errors, of which ρ is the correlation: MOVER for a difference with -ρ
        below = statistics.combine_reaches(score.value - score.low, score.value - least, -rho)
        above = statistics.combine_reaches(score.high - score.value, most - score.value, -rho)
        of_threshold = f"{score.interval}, and of the threshold, by the pairs' effective size (MOVER)"
        images = len(self.near)
        kind = sampled_pairs.describe_interval(of_threshold, images, self.partners or images - 1)
        low, high = max(score.value - below, 0.0), min(score.value + above, self.most)
        return replace(score, low=low, high=high, interval=kind)

    def influence(self) -> Influence:
        """Return each image's influence on the number, by its own value and by its pairs; zeros without a number."""
        by_value, by_pairs = self._influences(0.95)
        return (by_value + by_pairs).nan_to_num(0.0)

    def _influences(self, confidence: float) -> tuple[Tensor, Tensor]:
        """By its value, and by its pairs: what they move, times the number's slope between the interval's rates."""
        low, high = self._rates(confidence)
        # An image whose pairs lie low brings the threshold at a rate down, as a lower rate would:
        # hence low less high
        slope = (self.at(low) - self.at(high)) / (high - low)
        return self.weigh_values(), slope * sampled_pairs.moves(self.near)

    def _rates(self, confidence: float) -> tuple[float, float]:
        """The interval of the share of pairs below the threshold."""
        return rates(self.rate, self.near, self.pairs, confidence)


@dataclass(frozen=True, eq=False)
class AtRate(AtThreshold):
    """The mean of values that depend on a threshold.

    Attributes:
        values: rate -> a value of each image, [N]; NaN where undefined.
        reduce: makes a score, with the interval given the threshold, of one value per image.

    Example:
        >>> quantiles = torch.linspace(0, 0.2, 40)
        >>> near = 0.05 + 0.04 * torch.sin(torch.arange(40.0))
        >>> score = AtRate(lambda rate: (quantiles > rate).double(), near, 0.05, 780).score()
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        0.75 in [0.57, 0.89]
    """

    values: Callable[[float], Float[Tensor, "population"]]
    near: Float[Tensor, "population"]
    rate: float
    pairs: float
    partners: int | None = None
    reduce: Callable[[Float[Tensor, "population"]], Score] = statistics.share

    def score_at_threshold(self) -> Score:
        """Return the mean with its interval given the threshold."""
        return self.reduce(self.values(self.rate))

    def at(self, rate: float) -> float:
        """Return the mean at the threshold of a rate."""
        return float(self.values(rate).nanmean())

    def weigh_values(self) -> Float[Tensor, "population"]:
        """Return what each image's value contributes to the mean."""
        values = self.values(self.rate)
        # Undefined images have no value of their own, and still their pairs
        return (values - values.nanmean()).nan_to_num(0.0) / max(int((~values.isnan()).sum()), 1)


@dataclass(frozen=True, eq=False)
class MedianAtRate(AtThreshold):
    """The median of sizes that break images at a threshold, inf where nothing did, see `BrokenMedian`.

    What breaks an image at another threshold takes another search. So three are known, the threshold and those at the
    ends of its rate's interval; between them, and where fewer images or more looks make the interval longer, the median
    is followed along straight lines.

    Attributes:
        sizes: three rates in rising order -> sizes at their thresholds, [N]; NaN where undefined; the second rate is
            `rate`.
        units: which images belong together; None where they are independent.
        condition: what the interval is conditional on beside the threshold.

    Example:
        >>> size, near = torch.linspace(1, 3, 40), 0.05 + 0.04 * torch.sin(torch.arange(40.0))
        >>> sizes = {0.034: size - 0.3, 0.05: size, 0.071: size + 0.4}
        >>> score = MedianAtRate(sizes, near, 0.05, 780).score()
        >>> print(f"{score.value:.2f} in [{score.low:.2f}, {score.high:.2f}]")
        2.00 in [1.55, 2.52]
    """

    sizes: Mapping[float, Float[Tensor, "population"]]
    near: Float[Tensor, "population"]
    rate: float
    pairs: float
    partners: int | None = None
    units: Int[Tensor, "population"] | None = None
    condition: str = ""

    most = math.inf

    def score_at_threshold(self) -> Score:
        """Return the median with its interval given the threshold."""
        own = self.sizes[self.rate]
        return BrokenMedian(own, self.units, self.condition, among=~own.isnan()).score()

    def at(self, rate: float) -> float:
        """Return the median at the threshold of a rate, along the two lines through the three that are known."""
        first, own, last = self.sizes
        # On either side of the rate a line of its own, which goes on beyond its end
        begin, end = (first, own) if rate < own else (own, last)
        a, b = (middle(sizes[~sizes.isnan()].double().sort().values) for sizes in (self.sizes[begin], self.sizes[end]))
        return a + (rate - begin) / (end - begin) * (b - a) if math.isfinite(a) and math.isfinite(b) else math.inf

    def weigh_values(self) -> Float[Tensor, "population"]:
        """Return on which side of the median each image lies, in units that add up to the median's variance."""
        score, own = self.score_at_threshold(), self.sizes[self.rate]
        if score.value is None or score.low is None or score.high is None:
            return torch.zeros(len(own), dtype=torch.float64)
        # Half the interval over its normal quantile is the standard error (Woodruff)
        deviation = (score.high - score.low) / 2 / float(scipy.stats.norm.ppf(0.5 + level(score.confidence) / 2))
        above = (own.double() - score.value).sign().nan_to_num(0.0)
        return above * deviation / math.sqrt(max(int((~own.isnan()).sum()), 1))


def rates(
    rate: float, near: Float[Tensor, "population"], pairs: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a share of pairs: binomial, of the independent pairs that images are worth.

    Args:
        rate: the share, of the pairs below a threshold.
        near: u_i of each image, [N]; of two encoders at once, the differences.
        pairs: how many are compared.
        confidence: level of the interval.

    Example:
        >>> low, high = rates(0.05, 0.05 + 0.04 * torch.sin(torch.arange(40.0)), 780)
        >>> print(f"{low:.3f} to {high:.3f}")
        0.034 to 0.071
    """
    variance, freedom = float(sampled_pairs.moves(near).square().sum()), max(len(near) - 1, 1)
    size = effective_trials(rate, variance, freedom, pairs, confidence)
    return statistics.clopper_pearson(rate * size, size, confidence)


def pair_quantile(
    ordered: Float[Tensor, "pairs"], rate: float, near: Float[Tensor, "population"], confidence: float = 0.95
) -> Score:
    """Return the smallest value that more than a rate of all pairs of images reach, with an interval over images.

    The ends are the values at the ends of the rate's interval (Woodruff); where pairs share one value, the nearest that
    differ. With the u_i of another encoder subtracted, it is an interval of the value here at the rate that a fixed
    value has there.

    Args:
        ordered: a value of each pair, in rising order.
        rate: share of the pairs below.
        near: see `rates`.
        confidence: level of the interval.

    Example:
        >>> near = 0.05 + 0.04 * torch.sin(torch.arange(40.0))
        >>> score = pair_quantile(torch.arange(780.0), 0.05, near)
        >>> score.value, score.low, score.high
        (39.0, 26.0, 55.0)
    """
    last = len(ordered) - 1

    # "More than a rate": index floor(rate · n), which rounding may not lower
    def at(share: float) -> float:
        return float(ordered[min(int(share * len(ordered) * (1 + 1e-12)), last)])

    value, ends = at(rate), rates(rate, near, float(len(ordered)), confidence)
    low, high = map(at, ends)
    # How many lie below the value, and how many at or below
    below, above = (int(torch.searchsorted(ordered, ordered.new_tensor(value), right=right)) for right in (False, True))
    low = float(ordered[below - 1]) if low == value and below else low
    high = float(ordered[above]) if high == value and above <= last else high
    kind, n = "at the ends of the rate's interval, over images in both roles of their pairs (Woodruff)", len(near)
    return Score(value, low, high, n, kind, confidence)
