"""What is proved of two encoders: how alike their vectors stay, and up to which change of an image both agree."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from holdfast.auditing.record import passes_entry
from holdfast.auditing.session import Session
from holdfast.core import HoldfastError, Observation, registry
from holdfast.numerics.statistics.statistic import Median, Share
from holdfast.runtime.errors import NotCertified
from holdfast.runtime.listener import Listener
from holdfast.storage.index_upgrade import AGREEMENT, HELD, NOT_PROVED, PROVED, IndexMeasure, IndexPasses, Proved
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
        both: both encoders as one, see `open_both`.
        notes: receives it.
        listener: hears how far it is.

    Raises:
        HoldfastError: an attack of the same images contradicts a proof.
    """
    pair, observation = pair_of(both), proofs(plan)
    count = min(plan.proved, len(both.images))
    needed, before = observation.passes_of(pair) * count, pair.passes
    listener.begin("both", needed.work)
    listener.stage("proving how alike both stay")
    measured = {}
    try:
        both.observe(observation)
    except NotCertified as error:
        notes.append(f"nothing is proved of both: {error}")
    else:
        proved = both.read(observation)
        if plan.attacked:
            gradients = pair.sides[0].differentiable, pair.sides[1].differentiable
            _compare(proved, both.read(disagreements(plan, gradients)), both.ids)
        measured = _measure(proved, plan.compared_by.in_words)
    made = pair.passes - before
    listener.advance(needed.work - made.work)  # what was stored, or spared
    passes = IndexPasses(predicted=passes_entry(needed), made=passes_entry(made))
    return Proved(images=count, passes=passes), measured


def proofs(plan: IndexPlan) -> Observation:
    """Return what proves."""
    return registry.find("observations", "proved_alike")(divergence=plan.compared_by, first=plan.proved)


def _compare(proved: Mapping[str, Tensor], found: Mapping[str, Tensor], ids: Sequence[str]) -> None:
    """Refuse what attacks have shown to be wrong: a proof that does not hold is none."""
    both = torch.minimum(proved["first"], proved["second"])
    count = min(len(both), len(found["radius"]))
    # Vectors of two lengths have no cosine, and comparisons with NaN are false
    wrong = found["radius"][:count] < both[:count] - ROUNDED
    wrong |= found["cosine"][:count] < proved["cosine"][:count] - ROUNDED
    for place in wrong.nonzero().flatten().tolist():
        raise HoldfastError(
            f"image {ids[place]!r}: an attack contradicts a proof: both agree up to {both[place]:.6g} and their cosine "
            f"is at least {proved['cosine'][place]:.6g}, it is proved, and a change of {found['radius'][place]:.6g} "
            f"makes them disagree, one within 1/255 parts them to {found['cosine'][place]:.6g}; please report this"
        )


def _measure(proved: Mapping[str, Tensor], distance: str) -> dict[str, IndexMeasure]:
    first, second, cosine = (proved[name] for name in ("first", "second", "cosine"))
    agreed = torch.minimum(first, second)
    measures = {
        AGREEMENT: IndexMeasure(
            title="change up to which both are proved to agree, median",
            scores={
                HELD: replace(Share((agreed >= LEVEL).double()).score(), unit="share", better="higher"),
                NOT_PROVED: replace(Share((agreed == 0).double()).score(), unit="share", better="lower"),
                "old": Median(first).score(),
                "new": Median(second).score(),
                "both": Median(agreed).score(),
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
