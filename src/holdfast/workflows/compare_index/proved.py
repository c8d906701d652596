"""What is proved of two encoders: how alike their vectors stay, and up to which change of an image both agree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from holdfast.auditing.record import passes_entry
from holdfast.auditing.session import Session
from holdfast.core import Observation, registry
from holdfast.core.pair import Pair
from holdfast.numerics.bounds.difference import Apart
from holdfast.numerics.bounds.trace import trace
from holdfast.numerics.statistics.statistic import Median, Share
from holdfast.runtime.errors import Failed, NotCertified
from holdfast.runtime.listener import Listener
from holdfast.storage.index_upgrade import AGREEMENT, HELD, NOT_PROVED, PROVED, IndexMeasure, IndexPasses, Proved
from holdfast.workflows.compare_index.attacked import Row, Seen
from holdfast.workflows.compare_index.both import LEVEL, pair_of
from holdfast.workflows.compare_index.cosines import median_cosine
from holdfast.workflows.compare_index.encoders import disagreements
from holdfast.workflows.compare_index.measures import MEAN
from holdfast.workflows.compare_index.plan import IndexPlan

ROUNDED = 1e-6
"""What float32 makes of radii and cosines that encoders compute themselves."""


def prove(
    plan: IndexPlan, both: Session, notes: list[str], listener: Listener
) -> tuple[Proved, dict[str, IndexMeasure]]:
    """Return how much of the first images was to be proved, and what is measured of that.

    A network of which nothing can be proved is an answer: a note says why, and nothing is measured.

    Args:
        plan: what is compared.
        both: both encoders as one, see `join`.
        notes: receives it.
        listener: hears how far it is.

    Raises:
        HoldfastError: an attack of the same images contradicts a proof.
    """
    pair = pair_of(both)
    count = min(plan.proved, len(both.images))
    observation = proofs(plan, _are_in_step(pair, both.images.shape, notes))
    needed, before = observation.passes_of(pair) * count, pair.passes
    listener.begin("both", needed.work)
    listener.stage("proving how alike both stay")
    # Stored a few images at a time, so that an interrupt loses no more
    measured = {}
    try:
        both.observe(observation)
    except NotCertified as error:
        notes.append(f"nothing is proved of both: {error}")
    else:
        proved = Proofs(**both.read(observation))
        if plan.attacked:
            gradients = pair.sides[0].differentiable, pair.sides[1].differentiable
            _compare(proved, Seen(**both.read(disagreements(plan, gradients))), both.ids)
        measured = _measure(proved, plan.compared_by.in_words)
    made = pair.passes - before
    listener.advance(needed.work - made.work)  # what was stored, or spared
    passes = IndexPasses(predicted=passes_entry(needed), made=passes_entry(made))
    return Proved(images=count, passes=passes), measured


def proofs(plan: IndexPlan, in_step: bool) -> Observation:
    """Return what proves."""
    proved_alike = registry.find("observations", "proved_alike")
    return proved_alike(divergence=plan.compared_by, in_step=in_step, first=plan.proved)


def _are_in_step(pair: Pair, shape: tuple[int, ...], notes: list[str]) -> bool:
    """Return whether the difference of both can be bounded; a note says why not."""
    try:
        first, second = (trace(side, shape) for side in pair.sides)
    except NotCertified:  # the proofs themselves will say so
        return False
    try:
        Apart(first, second)
    except NotCertified as error:
        notes.append(f"no cosine is proved: {error}")
        return False
    return True


@dataclass(frozen=True)
class Proofs:
    """What the observation proved of each image, see there."""

    cosine: Row
    first: Row
    second: Row

    @property
    def agreement(self) -> Row:
        """Up to which change both agree."""
        return torch.minimum(self.first, self.second)


def _compare(proved: Proofs, seen: Seen, ids: Sequence[str]) -> None:
    """Refuse what attacks have shown to be wrong: a proof that does not hold is none."""
    count = min(len(proved.agreement), len(seen.radius))
    # Vectors of two lengths have no cosine, and comparisons with NaN are false
    wrong = seen.radius[:count] < proved.agreement[:count] - ROUNDED
    wrong |= seen.cosine[:count] < proved.cosine[:count] - ROUNDED
    for place in wrong.nonzero().flatten().tolist():
        raise Failed(
            f"image {ids[place]!r}: an attack contradicts a proof: proved is that both agree up to "
            f"{proved.agreement[place]:.6g} and that their cosine is at least {proved.cosine[place]:.6g}, found that a "
            f"change of {seen.radius[place]:.6g} makes them disagree and that one within 1/255 parts them to "
            f"{seen.cosine[place]:.6g}; please report this"
        )


def _measure(proved: Proofs, distance: str) -> dict[str, IndexMeasure]:
    agreement, cosine = proved.agreement, proved.cosine
    measures = {
        AGREEMENT: IndexMeasure(
            title="change up to which both are proved to agree, median",
            scores={
                HELD: replace(Share((agreement >= LEVEL).double()).score(), unit="share", better="higher"),
                NOT_PROVED: replace(Share((agreement == 0).double()).score(), unit="share", better="lower"),
                "old": Median(proved.first).score(),
                "new": Median(proved.second).score(),
                "both": Median(agreement).score(),
            },
            headline="both",
            unit="pixels",
            better="higher",
            how_to_read=(
                f"In ℓ∞, of pixels in [0, 1]: proved, not searched. After any smaller change the image is still nearer "
                f"to itself, by {distance}, than any other of the images is, in each index. Bounds get loose with "
                "depth, so a small number says that little is proved, not that little holds."
            ),
        )
    }
    if cosine.isnan().all():
        return measures
    return measures | {
        PROVED: IndexMeasure(
            title="cosine of old and new vectors, proved within 1/255, median",
            scores={
                NOT_PROVED: replace(Share((cosine <= -1).double()).score(), unit="share", better="lower"),
                MEAN: median_cosine(cosine),
            },
            headline=MEAN,
            unit="similarity",
            better="higher",
            how_to_read=(
                "Whatever change of at most one grey level both encoders see, the cosine of their vectors is at least "
                "this: proved, by bounding how far the two networks can be apart step by step. -1 where nothing is."
            ),
        )
    }
