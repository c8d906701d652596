"""The mean over images and repetitions, such as draws of a few training images, where both could have been others."""

import math
from dataclasses import dataclass, replace

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics import statistics
from holdfast.numerics.statistics.looks import level
from holdfast.numerics.statistics.rows import constant
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Influence, Statistic


def two_way_mean(
    values: Float[Tensor, "images repetitions"],
    condition: str = "",
    confidence: float = 0.95,
    most: float | None = None,
) -> Score:
    """Mean of values that every image has in every repetition, with an interval that covers both.

    With random effects of images and of repetitions the mean x̄ has the variance σ_a²/I + σ_b²/R + σ_e²/(IR), and that
    of image means, over I, plus that of repetition means, over R, is it and one σ_e²/(IR) more: on the safe side.
    The interval is recovered from those of both means (MOVER): low = x̄ - √((x̄ - l)² + t²s²/R) with l from
    `statistics.mean` of the image means and t s/√R Student's for the repetition means; high likewise.

    Next to one Student interval of the summed variance, with Satterthwaite's degrees of freedom, it is 1.1 to 1.3 times
    as long for three to five repetitions, and keeps its level where failures are rare (0.95 to 1 instead of 0.3 to
    0.95 for 20 to 100 images). Where three repetitions differ much and skewly its level falls to 0.90.

    Args:
        values: non-negative numbers, in any unit; an image with a NaN is left out and counted in the note.
        condition: what the interval is conditional on.
        confidence: level of the interval.
        most: the largest value possible, where one is known; the interval's limit.

    Source: Zou & Donner (2008) for MOVER; Owen & Eckles (2012), "Bootstrapping data arrays of arbitrary order", for
    the variance and why both effects count.

    Example:
        >>> values = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]).repeat(3, 1)
        >>> score = two_way_mean(values, most=1.0)
        >>> print(f"{score.value} in [{score.low:.2f}, {score.high:.2f}]")
        0.625 in [0.00, 1.00]
    """
    # the interval over images, of each image's mean
    kind = "over images and repetitions, recovered from the intervals of both means (MOVER)"
    kind += f", {condition}" if condition else ""
    repetitions = values.shape[1]
    images = statistics.mean(values.double().mean(1), most=most, confidence=confidence)

    def build_score(low: float | None, high: float | None, *words: str) -> Score:
        note = "; ".join(filter(None, [images.note, *words]))
        return Score(images.value, low, high, images.n, kind, confidence, note)

    if images.value is None or images.low is None or images.high is None:
        return build_score(None, None)
    if repetitions < 2:
        return build_score(None, None, "one repetition does not tell how repetitions differ: no interval over both")

    # MOVER: the interval of image means, widened by Student's of repetition means
    # [R], over the images that have a value in every repetition
    means = values[~values.isnan().any(1)].double().mean(0)
    deviation = float(means.std())
    reach = float(scipy.stats.t.ppf(0.5 + level(confidence) / 2, repetitions - 1)) * deviation / math.sqrt(repetitions)
    low = images.value - math.hypot(images.value - images.low, reach)
    high = images.value + math.hypot(images.high - images.value, reach)
    return build_score(
        max(low, 0.0) if float(means.min()) >= 0 else low,
        high if most is None else min(high, most),
        f"all {repetitions} repetitions have the same mean, so the interval is over images alone"
        if constant(means)
        else "",
    )


@dataclass(frozen=True, eq=False)
class TwoWayMean(Statistic):
    """The mean of values that every image has in every repetition, see `two_way_mean`.

    Attributes:
        values: non-negative numbers; an image with a NaN is left out, [N, R].
        condition: what the interval is conditional on.
        most: the largest value possible, where one is known.
    """

    values: Float[Tensor, "images repetitions"]
    condition: str = ""
    most: float | None = None

    def score(self) -> Score:
        """Return the mean."""
        return two_way_mean(self.values, self.condition, most=self.most)

    def influence(self) -> Influence:
        """Return the influence of each image."""
        # Other encoders have repetitions of their own, so only images are shared
        return statistics.influence_of_mean(self.values.double().mean(1))


def two_way_share(
    hits: Float[Tensor, "images repetitions"], of: str = "repetitions", condition: str = "", confidence: float = 0.95
) -> Score:
    """Share of hits that every image has in every repetition, with an interval about other images and repetitions.

    As in `two_way_mean` it is recovered from two (MOVER): low = p - √((p - l)² + (p - l')²), high likewise. Over images
    l is that of `statistics.share`, one image being a cluster; over repetitions l' is Student's of their log odds,
    logit p - t s/√R, since shares near 0 or 1 scatter to one side.

    It covers 0.93 to 1 of simulated truths, 0.96 or more on average, for 2 to 10 repetitions, 100 to 1000 images and
    shares from 0.02 to 0.99; see docs/statistics.md. It is conservative where repetitions hardly differ.

    Args:
        hits: 1 or 0, or a share of several such; an image with a NaN is left out and counted in the note.
        of: what the repetitions are called.
        condition: what the interval is conditional on.
        confidence: level of the interval.

    Source: Zou & Donner (2008) for MOVER; Owen & Eckles (2012) for the variance; Korn & Graubard (1998) for clusters.

    Example:
        >>> hits = torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]).repeat(25, 1)
        >>> score = two_way_share(hits, of="trainings")
        >>> print(f"{score.value} in [{score.low:.2f}, {score.high:.2f}]")
        0.75 in [0.68, 0.81]
    """
    kind = f"about other images and other {of}, recovered from the intervals over both (MOVER)"
    kind += f", {condition}" if condition else ""
    # the interval over images
    n, repetitions = hits.shape
    kept = ~hits.isnan().any(1)
    hits = hits.double().masked_fill(~kept[:, None], math.nan)
    units = torch.arange(n, device=hits.device).repeat_interleave(repetitions)
    images = replace(statistics.share(hits.flatten(), units, confidence=confidence), interval=kind)
    if images.value is None or images.low is None or images.high is None:
        return images
    if repetitions < 2:
        note = f"one does not tell how {of} differ: no interval over both"
        return replace(images, low=None, high=None, note="; ".join(filter(None, [images.note, note])))
    # what repetitions add; half a hit more and half a miss more leave finite odds
    own = hits[kept].sum(0)
    if constant(own):
        note = f"all {repetitions} {of} have the same share, so the interval is over images alone"
        return replace(images, note="; ".join(filter(None, [images.note, note])))
    count = int(kept.sum())
    middle = (images.value * count + 0.5) / (count + 1)
    deviation = float(((own + 0.5) / (count + 1)).logit().std())
    reach = float(scipy.stats.t.ppf(0.5 + level(confidence) / 2, repetitions - 1)) * deviation / math.sqrt(repetitions)
    odds = scipy.special.logit(middle)
    below, above = middle - scipy.special.expit(odds - reach), scipy.special.expit(odds + reach) - middle
    low = images.value - math.hypot(images.value - images.low, below)
    high = images.value + math.hypot(images.high - images.value, above)
    return replace(images, low=max(low, 0.0), high=min(high, 1.0))
