"""SynBench: how much of the trade-off that two Gaussian classes allow is left in their representations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic
from holdfast.runtime.errors import BadValue

OVER = ("samples and s", "samples")
"""What could have been drawn otherwise: images and separations, or images alone."""
STEP = 0.4 / 99
"""Spacing of threshold accuracies: that of 100 from .6 to 1."""
ROUNDING = 1e-12

Areas = Float[Tensor, "directions separations halves"]
Ideal = Float[Tensor, "directions separations"]


def thresholds(start: float) -> Float[Tensor, "points"]:
    """Return the threshold accuracies a = 1 - k (.4 / 99) that are at least `start`, rising; see `STEP`.

    Args:
        start: a_t, in [.5, 1).

    Raises:
        HoldfastError: another start.

    Example:
        >>> thresholds(0.6).numel(), float(thresholds(0.6)[-1])
        (100, 1.0)
    """
    if not 0.5 <= start < 1:
        raise BadValue(f"a_t: expected a threshold accuracy in [0.5, 1), got {start:g}")
    # Counted down from 1, so that different a_t share their points; 1e-9 keeps a start that is one of them
    last = math.floor((1 - start + 1e-9) / STEP)
    return 1 - STEP * torch.arange(last, -1, -1, dtype=torch.float64)


def area(accuracy: Float[Tensor, "*rows"], bound: Float[Tensor, "*rows"], start: float) -> Float[Tensor, "*rows"]:
    """Return the area below a bound, as a sum over thresholds: bound · #{a >= a_t: accuracy > a}, in float64.

    Args:
        accuracy: of each classifier, [*].
        bound: its mean scaled bound over what it classifies rightly, [*].
        start: a_t, in [.5, 1).

    Example:
        >>> area(torch.tensor([0.9, 0.5]), torch.tensor([1.0, 1.0]), start=0.7).tolist()
        [50.0, 0.0]
    """
    # Accuracies are quotients of counts: one that equals a threshold does not pass it, however it was rounded
    passed = accuracy.double()[..., None] > thresholds(start) + ROUNDING
    return bound.double() * passed.sum(-1)


def curve(
    accuracy: Float[Tensor, "rows"], bound: Float[Tensor, "rows"], points: Float[Tensor, "points"]
) -> Float[Tensor, "points"]:
    """Return E(a), the mean over rows of bound · 1[accuracy > a], at each threshold a, in float64.

    Args:
        accuracy: of each classifier, [N].
        bound: its mean scaled bound, [N].
        points: thresholds a, [P].

    Source: "SynBench", Eq. 2.

    Example:
        >>> curve(torch.tensor([0.9, 0.6]), torch.tensor([2.0, 1.0]), torch.tensor([0.5, 0.7])).tolist()
        [1.5, 1.0]
    """
    # (2): the indicator a > a_t of each s_i, [P, N], averaged over i
    return (bound.double() * (accuracy.double() > points.double()[:, None] + ROUNDING)).mean(1)


def reference(s: Float[Tensor, "*rows"]) -> tuple[Float[Tensor, "*rows"], Float[Tensor, "*rows"]]:
    """Return accuracy and expected scaled bound, Φ(s) and 1 + φ(s) / (s Φ(s)), of classes N(±μ, Σ) with |μ|_Σ = s > 0.

    It is the same for every ε where Σ is a multiple of I. In float64.

    Source: "SynBench", Results 2.2 and 2.3.

    Example:
        >>> accuracy, bound = reference(torch.tensor([1.0]))
        >>> print(f"{accuracy.item():.4f} {bound.item():.4f}")
        0.8413 1.2876
    """
    s = s.double()
    # Result 2.2 with Λ = I is Φ(s), and Result 2.3 with Φ⁻¹(a) = s
    accuracy = torch.special.ndtr(s)
    return accuracy, 1 + (-s.square() / 2).exp() / (math.sqrt(2 * math.pi) * s * accuracy)


@dataclass(frozen=True)
class TradeOff:
    """What the classifiers of one ε did, and what was possible.

    Two classifiers for each direction and s, each fitted to one half of the images and tested on the other one; or the
    first of them alone, H = 1, of which chance is known from the exact limits of its accuracies only.

    Attributes:
        separations: s, increasing, [S].
        accuracy: share of tested images that are right, [K, S, H].
        bound: mean scaled bound over these, 0 where there is none, [K, S, H].
        best_accuracy: of the best classifier of the images themselves, [K, S].
        best_bound: its expected scaled bound, [K, S].
        samples: images in each half.

    Example:
        >>> s = torch.tensor([1.0, 2.0])
        >>> accuracy, bound = reference(s[None])
        >>> halves = [ideal[..., None].expand(1, 2, 2) for ideal in (accuracy, bound)]  # nothing is lost in either half
        >>> TradeOff(s, *halves, accuracy, bound, samples=100).normalise_areas(0.6).sum().item()
        2.0
    """

    separations: Float[Tensor, "separations"]
    accuracy: Areas
    bound: Areas
    best_accuracy: Ideal
    best_bound: Ideal
    samples: int

    def total(self, start: float) -> float:
        """Return the reference's area, summed over rows."""
        return float(area(self.best_accuracy, self.best_bound, start).sum())

    def normalise_areas(self, start: float) -> Areas:
        """Return each classifier's area in units of the reference's sum: both halves' averages add up to the score."""
        return area(self.accuracy, self.bound, start) / self.total(start)

    def residuals(self, start: float) -> Float[Tensor, "rows"]:
        """Return each row's influence on the score where s could have been another one: (c_s - R r_s) / Σ r."""
        # A ratio's influence, linearised: each row's area less R times the reference's
        kept = self.normalise_areas(start).mean(-1)
        ideal = area(self.best_accuracy, self.best_bound, start) / self.total(start)
        return (kept - kept.sum() * ideal).flatten()

    def limits(self, start: float, confidence: float) -> tuple[float, float]:
        """Return the score with all accuracies at the ends of exact intervals that hold together (Bonferroni)."""
        # Images that were right; Bonferroni over all accuracies and both ends
        right, n = (self.accuracy.double() * self.samples).numpy(), self.samples
        tail = (1 - confidence) / 2 / right.size
        # Clopper-Pearson; its ends at 0 and at n successes are set, where the inverse is not defined
        low = torch.from_numpy(scipy.special.betaincinv(right.clip(min=0.5), n - right + 1, tail)).where(
            self.accuracy > 0, 0.0
        )
        high = torch.from_numpy(scipy.special.betainccinv(right + 1, (n - right).clip(min=0.5), tail)).where(
            self.accuracy < 1, 1.0
        )
        # Bounds stay as they are: they are means over the images that were right
        ends = [float(area(end, self.bound, start).mean(-1).sum()) / self.total(start) for end in (low, high)]
        return ends[0], ends[1]


def score(trade: TradeOff, start: float, over: str = OVER[0], confidence: float = 0.95) -> Score:
    """Return Σ areas of the representations / Σ areas of the reference, over directions and s; 1: nothing is lost.

    Both halves count half. The score is that of classifiers fitted to this number of images, and so is its interval.

    Over samples: Student's t with the error of `_error`, above at least R exp(t·error/R), because scores near 0
    rest on few rows and are skewed; never beyond `TradeOff.limits`, and these themselves where no two halves differ.
    Simulated level .93 to 1 for identity encoders, also of weaker classes (5 to 100 dimensions, 64 to 1024 images,
    a_t .5 to .9, 49 or 10 s); by halves alone it would be .82.

    Over samples and s: outer ends of that and of `statistics.mean` of the linearised ratio, R + n (c_s - R r_s) / Σ r.
    Simulated level .93 to 1 with 49 s that are drawn; .8 where ten s are drawn and a_t is .5, so that one of them
    decides.

    Args:
        trade: what the classifiers did.
        start: a_t, in [.5, 1).
        over: what could have been drawn otherwise, one of `OVER`.
        confidence: level of the interval.

    Source: "SynBench", Eq. 3. The intervals are ours.

    Example:
        >>> s = torch.tensor([1.0, 2.0])
        >>> accuracy, bound = reference(s[None])
        >>> halves = accuracy[..., None].expand(1, 2, 2), bound[..., None].expand(1, 2, 2) / 2
        >>> round(score(TradeOff(s, *halves, accuracy, bound, samples=100), start=0.6).value, 6)
        0.5
    """
    rows = trade.best_accuracy.numel()
    kind = f"Student's t, log-normal above, within exact limits; given {trade.samples} images in each half"
    if over != "samples":
        kind = f"outer ends of Student's t, Hall's (over s) and log-normal (over images); given {trade.samples} images"
    if trade.total(start) == 0:
        return Score(None, None, None, rows, kind, confidence, "undefined: the images themselves allow no area here")
    # (3): the sums over thresholds stand for its integrals, whose spacing cancels
    kept = trade.normalise_areas(start)
    value = float(kept.mean(-1).sum())
    low, high = _over_samples(kept, trade, start, confidence)
    note = "every accuracy is below a_t, even at the upper end of its interval" if high == 0 else ""
    if over != "samples":
        # Linearised values, whose mean is the score: their spread is that over s
        drawn = statistics.mean(value + rows * trade.residuals(start), confidence=confidence)
        low = max(0.0, min(low, value if drawn.low is None else drawn.low))
        high = max(high, value if drawn.high is None else drawn.high)
    return Score(value, low, high, rows, kind, confidence, note)


def _over_samples(kept: Areas, trade: TradeOff, start: float, confidence: float) -> tuple[float, float]:
    least, most = trade.limits(start, confidence)
    value, (error, freedom) = float(kept.mean(-1).sum()), _error(kept, trade.separations)
    if error == 0:
        return least, most
    t = float(scipy.stats.t.isf((1 - confidence) / 2, freedom)) * error
    # The same relative error in the logarithm; capped, or the exponential overflows at scores near 0
    skewed = value * math.exp(min(t / value, 50.0)) if value > 0 else 0.0
    return max(value - t, least), min(max(value + t, skewed), most)


def _error(kept: Areas, s: Float[Tensor, "separations"]) -> tuple[float, float]:
    """Return the standard error of the halves' average, summed over independent rows, and its degrees of freedom.

    Var(c) of c = (c₁ + c₂)/2 is (c₁ - c₂)²/4 on average where the halves are uncorrelated. They are not: each is fitted
    to the images on which the other one is tested (correlations of -.55, for many images, to .35, for many dimensions
    and weak classes, in simulations). What rows differ from the line through their neighbours in s contains it, but
    bends of the curve too; so it is held between once and three times the sum of (c₁ - c₂)²/4, which is what
    correlations from 0 to 1/2 come to. First and last rows have no neighbours. Freedom: Satterthwaite's, for squares of
    one degree each, 3 (Σv)²/Σv² - 2.

    Source: Gasser, Sroka & Jennen-Steinmetz (1986) for differences from neighbours.
    """
    if kept.shape[-1] == 1:
        return 0.0, 1.0
    # (c₁ - c₂)² / 4 of each row
    halves = kept.diff(dim=-1).square().squeeze(-1) / 4
    total = float(halves.sum())
    if total == 0:
        return 0.0, 1.0
    # What each row is away from the line through its neighbours, over the variance that this has
    c, near = kept.mean(-1), halves.clone()
    left = (s[2:] - s[1:-1]) / (s[2:] - s[:-2])
    gap = c[:, 1:-1] - left * c[:, :-2] - (1 - left) * c[:, 2:]
    near[:, 1:-1] = gap.square() / (1 + left.square() + (1 - left).square())
    freedom = max(1.0, 3 * total**2 / float(halves.square().sum()) - 2)
    # Once to three times: between uncorrelated halves and a correlation of 1/2
    return math.sqrt(min(max(float(near.sum()), total), 3 * total)), freedom


def influence(trade: TradeOff, start: float, over: str = OVER[0]) -> Float[Tensor, "rows"]:
    """Return each row's influence on the score, a row for each direction and s; 0 where there is no score.

    Over samples (c₁ - c₂) / 2, the error of its row; over samples and s, or where one half is tested alone,
    (c_s - R r_s) / Σ r.

    Example:
        >>> s = torch.tensor([1.0, 2.0])
        >>> accuracy, bound = reference(s[None])
        >>> halves = accuracy[..., None].expand(1, 2, 2), bound[..., None] * torch.tensor([1.0, 0.5])
        >>> influence(TradeOff(s, *halves, accuracy, bound, samples=100), start=0.6, over="samples").argmax().item()
        1
    """
    if trade.total(start) == 0:
        return torch.zeros(trade.best_accuracy.numel(), dtype=torch.float64)
    if over != "samples" or trade.accuracy.shape[-1] == 1:
        return trade.residuals(start)
    return -trade.normalise_areas(start).diff(dim=-1).flatten() / 2  # (c₁ - c₂) / 2


@dataclass(frozen=True, eq=False)
class AreaKept(Statistic):
    """The area of the representations over that of the reference, see `score`.

    Attributes:
        trade: what the classifiers did.
        start: a_t, in [.5, 1).
        over: what could have been drawn otherwise, one of `OVER`.
    """

    trade: TradeOff
    start: float
    over: str = OVER[0]

    def score(self) -> Score:
        """Return the ratio of the areas."""
        return score(self.trade, self.start, self.over)

    def influence(self) -> Influence:
        """Return the influence of each direction and s."""
        # Rows are drawn sets of images, which all encoders see alike
        return influence(self.trade, self.start, self.over)


def best(
    trades: Sequence[tuple[float, TradeOff]], start: float, over: str = OVER[0], confidence: float = 0.95
) -> Score:
    """Return the ε of the highest score, the smallest of equals; from the smallest to the largest that may be it.

    An ε is ruled out where its score is significantly below that of the best one found, by the differences row by row:
    one-sided, with Bonferroni's correction for all others, so that the choice of the best one is allowed for.

    Args:
        trades: what the classifiers of each ε did, ε increasing.
        start: a_t, in [.5, 1).
        over: as in `score`.
        confidence: that the ε with the highest expected score, of those tried, is not ruled out.

    Example:
        >>> s = torch.tensor([1.0, 2.0])
        >>> accuracy, bound = reference(s[None])
        >>> halves = accuracy[..., None].expand(1, 2, 2), bound[..., None].expand(1, 2, 2)
        >>> whole = TradeOff(s, *halves, accuracy, bound, samples=100)
        >>> best([(0.0, replace(whole, bound=halves[1] / 2)), (0.1, whole)], start=0.6).value
        0.1
    """
    defined = [(epsilon, trade) for epsilon, trade in trades if trade.total(start) > 0]
    # the ε with the highest score
    scores = [float(trade.normalise_areas(start).mean(-1).sum()) for _, trade in defined]
    kind = f"ε not significantly below the best (paired t, Bonferroni over {max(len(defined) - 1, 0)} others)"
    rows = trades[0][1].best_accuracy.numel()
    nothing = Score(None, None, None, rows, kind, confidence)
    if not defined:
        return replace(nothing, note="undefined: the images themselves allow no area here")
    if max(scores) == 0:
        return replace(nothing, note="undefined: all scores are 0")
    first = scores.index(max(scores))
    # One-sided, over all ε but the best
    tail = (1 - confidence) / max(len(defined) - 1, 1)

    def beaten(rival: TradeOff, by: float) -> bool:
        # Row by row, for all ε share images and s
        error, freedom = _error(
            defined[first][1].normalise_areas(start) - rival.normalise_areas(start), rival.separations
        )
        sure = by > error * float(scipy.stats.t.isf(tail, freedom)) > 0
        if over == "samples":
            return sure
        # Where s could have been others, the difference must stand out from its spread over s as well
        parts = defined[first][1].residuals(start) - rival.residuals(start)
        spread = math.sqrt(rows) * float(parts.std()) if rows > 1 else math.inf
        return sure and by > spread * float(scipy.stats.t.isf(tail, max(rows - 1, 1)))

    # The best one is never beaten, so at least one is left
    left = [
        epsilon for (epsilon, trade), own in zip(defined, scores, strict=True) if not beaten(trade, scores[first] - own)
    ]
    if len(left) == 1:
        return replace(nothing, value=left[0], note="every other ε tried is ruled out")
    return Score(defined[first][0], min(left), max(left), rows, kind, confidence)
