"""Thresholds of the old and of the new encoder: at one rate of false positives, and where the old one is kept."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Divergence, Score
from holdfast.numerics import statistics
from holdfast.numerics.geometry.image_pairs import ImagePairs
from holdfast.numerics.geometry.matching import LEAST, images_needed
from holdfast.numerics.statistics.thresholds import AtRate, pair_quantile
from holdfast.runtime.errors import BadValue, NotEnough
from holdfast.storage.index_upgrade import TranslatedThreshold
from holdfast.workflows.compare_index.plan import RATE

POINTS = 25
"""Rates at which distances of the two encoders are put side by side."""

MOST = 0.5
"""The largest of them."""

Distances = Float[Tensor, "pairs"]


@dataclass(frozen=True)
class Distanced:
    """Distances of the pairs of different images by both encoders, by what they are compared, and what images are."""

    pairs: ImagePairs
    old: Distances
    new: Distances
    compared_by: Divergence
    noun: str = "image"

    @cached_property
    def order_statistics(self) -> tuple[Distances, Distances]:
        """Both in rising order."""
        return self.old.sort().values, self.new.sort().values

    def below(self, distances: Distances, limit: float) -> Float[Tensor, "images"]:
        """Return what each image contributes to the share of the pairs below a limit."""
        return self.pairs.shares((distances < limit).double())

    def at(self, encoder: int, rate: float) -> float:
        """Return the smallest distance by an encoder, 0 (old) or 1 (new), that more than a rate of the pairs reach."""
        return float(self.order_statistics[encoder][min(self.under(rate), self.pairs.count - 1)])

    def translate(self, limit: float) -> tuple[Score, Float[Tensor, "images"]]:
        """Return the new encoder's distance that as many pairs lie below as below a limit by the old one.

        The interval is that of a fixed limit of the old encoder, image by image: what moves both shares cancels. It is
        made of the second value, see `rates`.
        """
        rate = float((self.old < limit).double().mean())
        near = self.below(self.new, self.at(1, rate)) - self.below(self.old, limit) + rate
        return pair_quantile(self.order_statistics[1], rate, near), near

    def under(self, rate: float) -> int:
        """How many pairs a rate allows."""
        # 0.1 x 30 is a little below 3 in floating point
        return math.floor(rate * self.pairs.count * (1 + 1e-12))


@dataclass(frozen=True)
class Thresholds:
    """What the thresholds of two encoders are.

    Attributes:
        old: the old encoder's, given or estimated; without an interval where it is given.
        new: the new encoder's at the same rate of false positives.
        rate: of false positives of the old threshold by the old encoder; without an interval where it is given.
        kept: of the old threshold by the new encoder.
        change: `kept` less `rate`.
        near: what each image contributes to the share that moves the old threshold and the new one; None where the
            threshold is given.
    """

    old: Score
    new: Score
    rate: Score
    kept: Score
    change: Score
    near: tuple[Float[Tensor, "images"] | None, Float[Tensor, "images"]]


def enough(images: int, rate: float, noun: str = "image") -> str:
    """Return why a rate is too small for so many images, and how many would do; "" where they are enough."""
    pairs = images * (images - 1) / 2
    if rate * pairs >= LEAST:
        return ""
    return (
        f"a rate of {rate:g} leaves {math.floor(rate * pairs)} of {pairs:,.0f} pairs of {images} {noun}s, and a "
        f"threshold needs {LEAST}; use {images_needed(rate)} {noun}s or a larger rate"
    )


def thresholds_at(distanced: Distanced, rate: float) -> Thresholds:
    """Return the thresholds at a rate of false positives: the smallest distances that more pairs reach.

    The rate where the old threshold is kept depends on the threshold's own error, see `AtRate`.
    """
    pairs, (old_ordered, new_ordered) = distanced.pairs, distanced.order_statistics
    if distanced.under(rate) < LEAST:
        raise NotEnough(f"rate: {enough(pairs.images, rate, distanced.noun) or 'too few pairs are left'}")
    limits = [distanced.at(encoder, rate) for encoder in (0, 1)]
    near = [distanced.below(d, limit) for d, limit in zip((distanced.old, distanced.new), limits, strict=True)]
    if limits[0] <= 0 and not distanced.compared_by.signed:
        raise NotEnough(
            f"rate: more than a share of {rate:g} of {pairs.count:,} pairs are equal to the old encoder, so no "
            "distance tells them from copies; take a larger rate"
        )

    # The rate at which the old threshold is kept: its interval moves with the threshold, which is estimated itself
    kept = AtRate(
        lambda share: distanced.below(distanced.new, distanced.at(0, share)),
        near[0],
        rate,
        float(pairs.count),
        reduce=lambda shares: statistics.pair_mean(shares, shares),
    ).score()
    given = Score(rate, None, None, pairs.images, "given", kept.confidence)
    value, low, high = (None if end is None else end - rate for end in (kept.value, kept.low, kept.high))
    return Thresholds(
        pair_quantile(old_ordered, rate, near[0]),
        pair_quantile(new_ordered, rate, near[1]),
        given,
        kept,
        replace(kept, value=value, low=low, high=high),
        (near[0], near[1]),
    )


def thresholds_for(distanced: Distanced, threshold: float) -> Thresholds:
    """Return the thresholds at the rate of false positives that a given threshold of the old encoder has."""
    pairs, ordered, known = distanced.pairs, distanced.order_statistics[0], distanced.compared_by
    words, asked = known.in_words, known.show(threshold)
    # Of inner products the larger one is the nearer
    looser, past = ("smaller", "smallest") if known.negated else ("larger", "largest")
    nearest, tenth = (known.show(float(ordered[place])) for place in (0, min(LEAST, pairs.count) - 1))
    below = int((distanced.old < threshold).sum())
    if below < LEAST:
        raise NotEnough(
            f"threshold: expected one by which at least {LEAST} of {pairs.count:,} pairs of different "
            f"{distanced.noun}s match, got {asked:g} with {below}; the {words} of the nearest pair is {nearest:.4g}, "
            f"of the {LEAST}th {tenth:.4g}; use more {distanced.noun}s or a {looser} threshold"
        )
    if below == pairs.count:
        raise BadValue(
            f"threshold: expected one by which some pair of different {distanced.noun}s does not match, got "
            f"{asked:g}, and the {past} {words} is {known.show(float(ordered[-1])):.4g}; is it of another divergence?"
        )
    shares = [distanced.below(distances, threshold) for distances in (distanced.old, distanced.new)]
    rate, kept = (statistics.pair_mean(near, near) for near in shares)
    change = statistics.difference(kept, rate, statistics.correlation(shares[1], shares[0]))
    given = Score(threshold, None, None, pairs.images, "given", rate.confidence)
    new, near = distanced.translate(threshold)
    return Thresholds(given, new, rate, kept, change, (None, near))


def scale(distanced: Distanced) -> Score:
    """Return the median over pairs of the new distance as a multiple of the old one, with an interval over images."""
    ratio = distanced.new / distanced.old.clamp_min(torch.finfo(torch.float64).tiny)
    ordered = ratio.sort().values
    return pair_quantile(ordered, 0.5, distanced.below(ratio, float(ordered[distanced.under(0.5)])))


def translation(distanced: Distanced) -> list[TranslatedThreshold]:
    """Return distances of both encoders at the same rates of false positives, from the smallest that there is."""
    least = LEAST / distanced.pairs.count
    rows: list[TranslatedThreshold] = []
    known, last = distanced.compared_by, -math.inf
    if least >= MOST:
        return rows
    for rate in torch.logspace(math.log10(least), math.log10(MOST), POINTS).tolist():
        limit = distanced.at(0, rate)
        # Rates of few pairs may share a threshold
        if limit <= last:
            continue
        last, shown = limit, known.show_score(distanced.translate(limit)[0])
        rows.append(
            TranslatedThreshold(rate=rate, old=known.show(limit), new=shown.value, low=shown.low, high=shown.high)
        )
    return rows


def usual(images: int) -> float | None:
    """Return the rate where none is given; None where the images are too few for it."""
    return None if enough(images, RATE) else RATE
