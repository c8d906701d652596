"""Ratios of two scores of the same images, such as the relative drop of an accuracy under a corruption."""

import math
from dataclasses import dataclass, replace

import torch

from holdfast.numerics.statistics.differences import correlation as correlation_between
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic
from holdfast.runtime.errors import BadValue


def ratio(first: Score, second: Score, correlation: float) -> Score:
    """Ratio first / second of two scores that are never negative, with an interval recovered from theirs.

    L is the smallest R at which θ₁ - R θ₂ may be 0 by the interval of a difference (`statistics.difference`), U the
    largest. With a = θ₁-l₁, b = u₂-θ₂ the former is the smaller root of
    R² u₂(2θ₂-u₂) - 2R (θ₁θ₂ - ρab) + l₁(2θ₁-l₁) = 0, and U is the larger one with l and u exchanged.

    ρ is kept below 1 - 1/n, as in `statistics.difference`, so the interval has positive width even where no image tells
    the two apart. Where the second score may be 0 the ratio may be anything: it has no value, and the note says why.

    Args:
        first: the numerator; >= 0.
        second: the denominator, on the same images; >= 0.
        correlation: of their per-image influences, in [-1, 1]; 0 gives the unpaired interval.

    Raises:
        HoldfastError: a score or an end of its interval below 0.

    Source: Donner & Zou (2012), "Closed-form confidence intervals for functions of the normal mean and standard
    deviation"; it is Fieller's interval where both intervals are symmetric.

    Example:
        >>> first, second = Score(0.4, 0.3, 0.5, 100, "t", 0.95, ""), Score(0.8, 0.7, 0.9, 100, "t", 0.95, "")
        >>> score = ratio(first, second, correlation=0.5)
        >>> print(f"{score.value:.2f} in [{score.low:.3f}, {score.high:.3f}]")
        0.50 in [0.391, 0.609]
    """
    n, level = min(first.n, second.n), first.confidence
    rho = min(correlation, 1 - 1 / max(n, 1))
    kind = f"ratio, recovered from both intervals (MOVER), correlation {rho:.2f}"

    def build_undefined(note: str) -> Score:
        return Score(None, None, None, n, kind, level, note)

    if first.value is None or second.value is None:
        return build_undefined("one of the two scores is undefined")
    if min(first.value, second.value, first.low or 0.0, second.low or 0.0) < 0:
        raise BadValue(
            f"ratio: expected scores >= 0, got {first.value:g} and {second.value:g} (or intervals that reach below 0); "
            "compare signed scores by their difference"
        )
    if second.value == 0 or second.low == 0:
        return build_undefined("undefined: the score to compare with is 0, or cannot be told from 0")
    value = first.value / second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Score(value, None, None, n, kind, level, "one of the two scores has no interval")
    # L and U are roots of the quadratic that the interval of θ₁ - R θ₂ makes of 0
    low = _smaller_root(
        second.high * (2 * second.value - second.high),
        first.value * second.value - rho * (first.value - first.low) * (second.high - second.value),
        first.low * (2 * first.value - first.low),
    )
    # 1/U is the smaller root with both scores exchanged; it is 0 only where U has no bound, which low > 0 excludes
    high = 1 / _smaller_root(
        first.high * (2 * first.value - first.high),
        first.value * second.value - rho * (first.high - first.value) * (second.value - second.low),
        second.low * (2 * second.value - second.low),
    )
    return Score(value, low, high, n, kind, level)


def relative_drop(changed: Score, original: Score, correlation: float) -> Score:
    """Relative drop Δ = 1 - changed / original: the share of the original score that is lost; below 0 for a gain.

    A score of 89.53 % that falls to 87.36 % has Δ = 0.024. As all corruptions of one set of images share the original,
    the average of their Δ is the Δ of the average of their scores.

    Args:
        changed: the score under a corruption; >= 0.
        original: the score without, on the same images; >= 0.
        correlation: of their per-image influences; see `ratio`.

    Source: Eq. 1 of Zhong et al. (2022), "Is self-supervised contrastive learning more robust than supervised
    learning?".

    Example:
        >>> original, corrupted = Score(0.9, 0.8, 0.95, 100, "t", 0.95, ""), Score(0.6, 0.5, 0.7, 100, "t", 0.95, "")
        >>> score = relative_drop(corrupted, original, correlation=0.5)
        >>> print(f"{score.value:.2f} in [{score.low:.3f}, {score.high:.3f}]")
        0.33 in [0.233, 0.433]
    """
    kept = ratio(changed, original, correlation)
    if kept.value is None:
        return kept
    low, high = (None if end is None else 1 - end for end in (kept.high, kept.low))
    return replace(kept, value=1 - kept.value, low=low, high=high)


@dataclass(frozen=True, eq=False)
class Ratio(Statistic):
    """The ratio of two statistics of the same units that are never negative, first / second, see `ratio`.

    Attributes:
        first: the numerator, a mean or a share.
        second: the denominator, a mean or a share.
    """

    first: Statistic
    second: Statistic

    def score(self) -> Score:
        """Return the ratio with its interval."""
        return ratio(self.first.score(), self.second.score(), self._correlation)

    def influence(self) -> Influence:
        """Return the influences on the numerator, less R times those on the denominator; zeros without a ratio."""
        # Linearised around the ratio R: what moves both by as much as R says moves nothing
        above, below = self.first.score().value, self.second.score().value
        first, second = self.first.influence().double(), self.second.influence().double()
        return first - above / below * second if above is not None and below else torch.zeros_like(first)

    @property
    def _correlation(self) -> float:
        return correlation_between(self.first.influence(), self.second.influence())


class RelativeDrop(Ratio):
    """The share of the second statistic that the first lacks, 1 - first / second, see `relative_drop`."""

    def score(self) -> Score:
        """Return the drop with its interval."""
        return relative_drop(self.first.score(), self.second.score(), self._correlation)

    def influence(self) -> Influence:
        """Return minus the influences on the ratio."""
        return -super().influence()


def _smaller_root(a: float, b: float, c: float) -> float:
    """Smaller root above 0 of a r² - 2 b r + c = 0, or 0 where c = 0; a may be 0 or below."""
    if c <= 0:
        return 0.0
    # One over the larger root of c s² - 2 b s + a = 0: no numbers of one size are subtracted, and a may be 0
    twice = b + math.sqrt(max(0.0, b * b - a * c))
    return c / twice if twice > 0 else math.inf
