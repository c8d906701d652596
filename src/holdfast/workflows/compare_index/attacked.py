"""Small changes of images after which two encoders answer otherwise than each other, and those that part vectors most.

The search is an observation of both as one encoder, so that its passes are counted, and what is done is kept, as in an
audit. Only what both are seen to answer counts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from holdfast.auditing.record import passes_entry
from holdfast.auditing.session import Session
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.statistics.broken_median import BrokenMedian
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Mean, Share
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.storage.index_upgrade import (
    ALREADY,
    BREAKING,
    DISAGREEMENT,
    HELD,
    LEVELS,
    NOISE,
    PARTED,
    Attacked,
    Both,
    IndexMeasure,
    IndexPasses,
)
from holdfast.workflows.compare_index.both import LEVEL, pair_of
from holdfast.workflows.compare_index.cosines import median_cosine
from holdfast.workflows.compare_index.encoders import Side, disagreements
from holdfast.workflows.compare_index.measures import MEAN
from holdfast.workflows.compare_index.plan import IndexPlan

Row = Float[Tensor, "attacked"]


def attack(
    plan: IndexPlan, sides: tuple[Side, Side], both: Session, listener: Listener
) -> tuple[Attacked, dict[str, IndexMeasure]]:
    """Return how the first images were attacked, and what is measured of that.

    Args:
        plan: what is compared.
        sides: what the old and the new encoder make of the images.
        both: both encoders as one, see `join`.
        listener: hears how far it is.
    """
    pair = pair_of(both)
    count = min(plan.attacked, len(both.images))
    gradients = pair.sides[0].differentiable, pair.sides[1].differentiable
    observation = disagreements(plan, gradients)
    predicted = [passes * count for passes in observation.passes_of_sides(gradients)]
    begun = [side.passes for side in pair.sides]
    needed, before = observation.passes_of(pair) * count, pair.passes
    listener.begin("both", needed.work)
    listener.stage("looking for changes on which both disagree")
    with foreign(f"encoders {pair.name}", "attacked", wrap=True):
        both.observe(observation)
    listener.advance(needed.work - (pair.passes - before).work)  # what was stored or spared
    passes = [
        IndexPasses(predicted=passes_entry(most), made=passes_entry(side.passes - start))
        for most, side, start in zip(predicted, pair.sides, begun, strict=True)
    ]
    # How far vectors part is told beside how alike they are without an attack
    entry = Attacked(images=count, gradients=_LED[gradients], passes=Both(old=passes[0], new=passes[1]))
    clean = [side.represented.reps[:count] for side in sides]
    alike = 1 - cosine(*clean) if clean[0].shape == clean[1].shape else None
    return entry, _measure(Seen(**both.read(observation)), alike, plan.compared_by.in_words)


_LED: Mapping[tuple[bool, bool], Literal["both", "old", "new", "neither"]] = {
    (True, True): "both",
    (True, False): "old",
    (False, True): "new",
    (False, False): "neither",
}


@dataclass(frozen=True)
class Seen:
    """What the observation saw of each image, see there."""

    radius: Row
    halfway: Row
    first: Row
    second: Row
    noise: Row
    levels: Row
    cosine: Row


def _measure(seen: Seen, alike: Row | None, distance: str) -> dict[str, IndexMeasure]:
    """Return what is measured: where both disagree, where each breaks, how far vectors part."""
    radius, noise = seen.radius, seen.noise
    measures = {
        DISAGREEMENT: IndexMeasure(
            title="smallest change found on which both disagree, median",
            scores={
                HELD: replace(Share((radius > LEVEL).double()).score(), unit="share", better="higher"),
                LEVELS: replace(Share(seen.levels).score(), unit="share", better="lower"),
                ALREADY: replace(Share((radius == 0).double()).score(), unit="share", better="lower"),
                NOISE: replace(Mean(noise[noise.isfinite()], most=1.0).score(), unit="share", better="lower"),
                "with half the passes": _median(seen.halfway),
                "median": _median(radius),
            },
            headline="median",
            unit="pixels",
            better="higher",
            how_to_read=(
                f"In ℓ∞, of pixels in [0, 1]: after it, the nearest image of each index by {distance} is not the same, "
                "clearly: by more than rounding. As it is, an image is nearest to itself. A search gives an upper "
                "bound: a better one may find less. Both disagree as soon as the first of them takes the image for "
                "another one. So compare it with the old one's breaking radius: where it is as large, the build adds "
                "nothing; where it is much smaller, the build is what breaks. Builds that differ by rounding alone "
                "break together: they disagree about there, or nowhere that a search can find."
            ),
        ),
        BREAKING: IndexMeasure(
            title="breaking radius, as far as found, median",
            scores={"old": _median(seen.first), "new": _median(seen.second)},
            headline="new",
            unit="pixels",
            better="higher",
            how_to_read="The change after which an encoder by itself takes an image for another one.",
        ),
    }
    if alike is None:
        return measures
    return measures | {
        PARTED: IndexMeasure(
            title="cosine of old and new vectors, parted within 1/255, median",
            scores={ALREADY: median_cosine(alike), MEAN: median_cosine(seen.cosine)},
            headline=MEAN,
            unit="similarity",
            better="higher",
            how_to_read=(
                "Both encoders see the same image, changed by at most one grey level so that their vectors part as far "
                "as an attack could bring them."
            ),
        )
    }


def _median(radii: Row) -> Score:
    """Return the median of radii, of which some may be infinite."""
    score = BrokenMedian(radii).score()
    if score.value is None or not math.isfinite(score.value):
        return replace(score, note="none was found for half of the images")
    return score if score.low is not None else replace(score, note="found for too few images for an interval")
