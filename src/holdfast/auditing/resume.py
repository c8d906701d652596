"""What an audit that goes on may use of what is stored: not what other code of its encoder has made."""

import torch

from holdfast.auditing.plan import Plan
from holdfast.auditing.representations import CLEAN
from holdfast.auditing.session import Session
from holdfast.numerics.geometry.spread import rounding, spread
from holdfast.storage.run_folder import Store

MOVED = 1e-2
"""How far the same encoder may represent an image elsewhere, in units of `spread`: batches and devices round."""


def forget_stale(session: Session, plan: Plan, store: Store, recorded: bool) -> int | None:
    """Delete what other code of an encoder has stored behind the same weights.

    Returns:
        How many shards that were; None: there are some, and they belong to the record.
    """
    if not _is_stale(session, store):
        return 0
    if recorded:
        return None
    files = {shard.file for observation in (CLEAN, *plan.order) for shard in session.shard_files(observation)}
    stored = [file for file in files if store.exists(file)]
    for file in stored:
        store.delete(file)
    return len(stored)


def _is_stale(session: Session, store: Store) -> bool:
    """Whether the encoder no longer gives the first stored representations: its code has changed, its weights not."""
    for shard in session.shard_files(CLEAN):
        if (stored := store.read_tensors(shard.file)) is None:
            continue
        reps, before = stored[0]["reps"], session.encoder.passes
        with torch.no_grad():
            again = session.encoder(session.batch(shard.start, shard.start + min(2, len(reps)))).float().cpu()
        session.encoder.passes = before  # two passes that only a resumed audit makes
        moved = (again - reps[: len(again)]).double().norm(dim=1)
        # of one image there is no spread: then its own length must do
        unit = spread(reps) if len(reps) > 1 else float(reps.double().norm(dim=1).max())
        return not bool((moved <= torch.clamp_min(rounding(reps)[: len(again)], MOVED * unit)).all())
    return False
