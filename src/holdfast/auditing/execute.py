"""The one executor of audits: work items go to the workers of an engine in the order of the schedule."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from holdfast.auditing.encoder_result import EncoderResult, ItemError, make_failed_result
from holdfast.auditing.prepare import PreparedAudit
from holdfast.auditing.schedule import Part, Schedule
from holdfast.auditing.services import refuse_calls
from holdfast.auditing.shards import ShardFile
from holdfast.auditing.work import Step, Worker, WorkItem
from holdfast.core import HoldfastError, registry
from holdfast.core.engine import Engine
from holdfast.runtime.listener import FailureListener, Listener, TotalListener
from holdfast.sources.encoders import draws_of
from holdfast.storage.run_folder import Store

INLINE: Engine = registry.part("engines", "inline")
"""This process: where audits run unless they are told otherwise."""


def execute(audit: PreparedAudit, engine: Engine, part: Part | None = None) -> Schedule:
    """Do the work items of an audit, and return its schedule, which holds what came out.

    Args:
        audit: the audit.
        engine: whose workers do them.
        part: which shards to make, and score nothing; None: all, and score all encoders.
    """
    plan, names, listener = audit.plan, audit.names, _Counting(audit.listener)
    tested, train = audit.images.tested, audit.images.train
    predict = partial(plan.predict_work, len(tested), None if train is None else len(train))
    work = [predict(_draws(audit, spec)) // (part.count if part else 1) for spec in plan.encoders]
    refuse_calls(audit)
    look = partial(find_stored_shards, audit.store)
    schedule = Schedule(plan.dependencies, plan.requirements, work, look, part)
    with engine.open(partial(Worker, replace(audit, listener=listener))) as pool:
        if pool.size == 1 and len(names) > 1 and isinstance(audit.listener, TotalListener):
            audit.listener.expect(len(names), sum(work))
        if pool.size > 1:
            listener.begin(names[0] if len(names) == 1 else f"{len(names)} encoders", sum(work))
        listener.stage(f"{engine.title}: starting")
        busy: dict[int, WorkItem] = {}
        last: dict[int, int] = {}
        while not schedule.is_finished:
            # Give each idle worker what is ready, of the encoder that it has open if possible
            for worker in sorted(set(range(pool.size)) - set(busy)):
                if (item := schedule.next(last.get(worker))) is None:
                    continue
                if pool.size == 1 and item.step is Step.OPEN:
                    listener.begin(names[item.encoder], work[item.encoder])
                busy[worker], last[worker] = item, item.encoder
                pool.give(worker, item)
            if not busy:
                raise RuntimeError("work items are left, and none of them is ready")
            listener.stage(f"{engine.title}: {_encoders(names, busy.values())}")

            # Wait for the first worker that has done its item, or died, and note what came out
            listener.heard = 0
            outcome = pool.wait()
            item = busy.pop(outcome.worker, None)
            if outcome.died:
                last.pop(outcome.worker, None)
            if outcome.error is not None:
                raise outcome.error
            if item is None:
                schedule.deaths += 1  # of a worker that had nothing to do
                continue
            if isinstance(audit.listener, FailureListener):
                # The only encoder that cannot be opened ends the audit, with the same words
                alone = item.step is Step.OPEN and len(names) == 1
                for text in () if alone else _failures(names[item.encoder], outcome.value):
                    audit.listener.report_failure(text)
            work_done = (
                schedule.died(item, outcome.died) if outcome.died else schedule.record_outcome(item, outcome.value)
            )
            listener.advance(work_done - listener.heard)
    return schedule


def _draws(audit: PreparedAudit, spec: str) -> int | None:
    """Return of how many draws an encoder is the mean, as far as that is known before it is opened."""
    if spec in audit.encoders:
        return audit.encoders[spec].draws
    with suppress(HoldfastError):  # which is said when it is opened
        return draws_of(spec)
    return None


def results_of(audit: PreparedAudit, schedule: Schedule) -> list[EncoderResult]:
    """Return what came out for each encoder of an audit that is executed."""
    results = [
        encoder.result if encoder.error is None else make_failed_result(name, slug, encoder.error)
        for name, slug, encoder in zip(audit.names, audit.slugs, schedule.encoders, strict=True)
    ]
    return [result for result in results if result is not None]


def _failures(name: str, value: object) -> list[str]:
    """Return what failed of a work item of an encoder, a sentence each."""
    match value:
        case EncoderResult():
            return value.failures
        case ItemError() if not value.not_certified:
            return [value.reason if value.reason.startswith(name) else f"{name}: {value.reason}"]
        case _:
            return []


def _encoders(names: Sequence[str], items: Iterable[WorkItem]) -> str:
    """Return which encoders are being worked on."""
    return ", ".join(dict.fromkeys(names[item.encoder] for item in items))


def find_stored_shards(store: Store, shards: Sequence[ShardFile], verified: Collection[int] = ()) -> set[int]:
    """Return the numbers of those shards of an observation that are stored."""
    names = set(store.names(shards[0].file.rpartition("/")[0])) if shards else set()
    stored = {number for number, shard in enumerate(shards) if shard.file in names}
    damaged = {n for n in stored.intersection(verified) if store.read_tensors(shards[n].file) is None}
    for number in damaged:
        store.delete(shards[number].file)
    return stored - damaged


class _Counting:
    """A listener that counts what workers in this process tell it; what others do is told by the executor."""

    def __init__(self, listener: Listener):
        self.begin, self.stage, self._advance = listener.begin, listener.stage, listener.advance
        self.heard = 0

    def advance(self, passes: int) -> None:
        """Hear that so many passes have been made."""
        self.heard += passes
        self._advance(passes)
