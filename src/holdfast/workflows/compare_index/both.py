"""Both encoders as one, for what is asked of them together: the same changes of the same images."""

from collections.abc import Mapping

import torch

from holdfast.auditing.plan import CLEAN, batch_size_for
from holdfast.auditing.session import Session
from holdfast.core import Encoder
from holdfast.core.pair import Pair, refuse_draws
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.listener import Listener
from holdfast.sources.data import ImageSet
from holdfast.storage.run_folder import Store
from holdfast.workflows.compare_index.encoders import Side, render, reopen
from holdfast.workflows.compare_index.plan import IndexPlan

LEVEL = 1 / 255
"""A change that nobody sees."""


def open_both(
    plan: IndexPlan, given: Mapping[str, Encoder], images: ImageSet, listener: Listener
) -> tuple[Encoder, Encoder]:
    """Open both encoders before either makes a pass, so that none is made in vain.

    Args:
        plan: what is compared.
        given: encoders that were given, by their names.
        images: the images.
        listener: hears how far it is.

    Raises:
        HoldfastError: two encoders that do not see the same pixels, or one that draws random numbers.
    """
    listener.stage("opening both encoders")
    old, new = (reopen(plan, spec, given.get(spec)) for spec in (plan.old, plan.new))
    for encoder in (old, new):
        refuse_draws(encoder)
    _refuse_unlike(render(images, old), render(images, new), _count(plan, images))
    return old, new


def join(
    plan: IndexPlan, sides: tuple[Side, Side], opened: tuple[Encoder, Encoder], store: Store, listener: Listener
) -> Session:
    """Return a session of both encoders, whose passes are counted, and what they do kept, as in an audit.

    Args:
        plan: what is compared.
        sides: what the old and the new encoder make of the images.
        opened: both encoders, see `open_both`.
        store: where what is found is kept.
        listener: hears of passes.
    """
    images = sides[0].images
    session = Session(
        Pair(*opened, (sides[0].entry.dim, sides[1].entry.dim)),
        images,
        attacked=_count(plan, images),
        seed=plan.seed,
        batch_size=plan.batch_size or batch_size_for(images.shape, plan.device),
        device=plan.device,
        store=store,
        progress=listener.advance,
    )
    # What both make of the images as they are is known
    session.take(CLEAN, {"reps": torch.cat([side.represented.reps for side in sides], 1)})
    return session


def pair_of(both: Session) -> Pair:
    """Return the encoders of a session that `join` made."""
    assert isinstance(both.encoder, Pair)
    return both.encoder


def _count(plan: IndexPlan, images: ImageSet) -> int:
    return min(max(plan.attacked, plan.proved), len(images))


def _refuse_unlike(old: ImageSet, new: ImageSet, count: int) -> None:
    """Refuse encoders that do not see the same pixels: one change of them would be two."""
    same = old.shape == new.shape and all(
        torch.equal(old.batch(place, place + 1), new.batch(place, place + 1)) for place in range(count)
    )
    if not same:
        seen = " and ".join(f"{list(images.shape)} {images.geometry or ''}".strip() for images in (old, new))
        raise Mismatch(
            "attacked and proved: expected two encoders that see the same pixels, of which a change is one, got images "
            f"rendered as {seen}; give both specs the same size, resize and crop, or leave --attacked and --proved out"
        )
