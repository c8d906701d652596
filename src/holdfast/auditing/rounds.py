"""An audit in rounds: a first answer soon, then more images, until its time is over or its precision reached.

Images are in a seeded random order, and what is observed of one does not depend on how many others are attacked. So
each round adds images to those of the round before, and its record is that of an audit of so many images made in one
go. The first round asks only the measures that answer in a sentence.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from holdfast.auditing.cuts import cuts_of
from holdfast.auditing.plan import Plan, Round
from holdfast.auditing.prepare import PreparedAudit, find_record, is_of_plan
from holdfast.auditing.run_prepared import run_prepared, write_record
from holdfast.core.engine import Engine
from holdfast.runtime.privacy import public
from holdfast.storage.record import Ended, Record, Rounds

AT_ONCE = 10.0
"""Seconds that a round may take however short those before it were."""

Told = Callable[[Record], None]
"""Told the record of each round."""


def run_rounds(audit: PreparedAudit, engine: Engine, command: str = "", told: Told = lambda record: None) -> Record:
    """Run an audit round by round, and return the last record; each stands in the run folder once it is made.

    A first round is always made. Another one begins where, by the pace of those before, it ends within the budget; it
    adds as many images as take no longer than all of them together, or else as few as it can. A folder that holds a
    round of this audit goes on after it; what that took is part of the budget.

    `record.run.rounds` says which round it is, and why none follows, see `Rounds`.
    """
    rounds = _Rounds(audit, engine, command)
    record = rounds.begin()
    try:
        told(record)
        while (end := rounds.next_end()) is not None:
            told(rounds.go_on(end))
        ended = rounds.why_over()
    except KeyboardInterrupt:
        ended = "interrupted"
    return rounds.close(ended)


class _Rounds:
    """The rounds of an audit so far."""

    def __init__(self, audit: PreparedAudit, engine: Engine, command: str):
        self._audit, self._engine, self._command = audit, engine, command
        plan, images = audit.plan, audit.images
        most = plan.count_attacked(len(images.tested))
        last = most if plan.until is None or plan.until.images is None else min(most, plan.until.images)
        cuts = cuts_of(most, plan.batch_size_of(images.tested.shape))
        self._ends = (*(end for end in cuts if end < last), last)
        self._most = most
        self._answering = answering(plan)
        self._record: Record | None = None
        self._number, self._before = 0, 0.0
        self._work, self._seconds = 0, 0.0  # of all rounds: predicted encoder passes, and how long they took

    def begin(self) -> Record:
        """Make the first round; or the last one that is recorded again, of which all that it observed is stored."""
        recorded = self._find_record()
        if recorded is None:
            return self._make(self._answering or self._audit.plan, self._ends[0])
        rounds, run = rounds_of(recorded), recorded.run
        self._number, self._before = rounds.number - 1, rounds.before + run.seconds
        plan = self._answering if rounds.answers_only else None
        record = self._make(plan or self._audit.plan, recorded.data.attacked)
        self._seconds = sum(o.seconds for encoder in record.encoders for o in encoder.observations)
        return record

    def go_on(self, end: int) -> Record:
        """Make the next round, by the end of which so many images are attacked."""
        return self._make(self._audit.plan, end)

    def next_end(self) -> int | None:
        """Return how many images are attacked by the end of the next round; None where none is made."""
        attacked, spent, budget = self._n_attacked, self._before + self._duration, self._audit.plan.budget
        if self._is_goal_met:
            return None
        ends = [end for end in self._ends if end >= attacked and (end > attacked or self._partial)]
        within = ends if budget is None else [end for end in ends if spent + self._predict_seconds(end) <= budget]
        soon = [end for end in within if self._predict_seconds(end) <= max(AT_ONCE, spent)]
        return max(soon) if soon else min(within, default=None)

    def why_over(self) -> Ended:
        """Return why no further round is made."""
        if self._is_goal_met:
            return "until"
        return "complete" if complete(self._last) else "budget"

    def close(self, ended: Ended) -> Record:
        """Write into the record why there is no further round, and return it."""
        run = self._last.run
        rounds = structs.replace(rounds_of(self._last), ended=ended)
        record = structs.replace(self._last, run=structs.replace(run, rounds=rounds))
        return write_record(self._audit.store, record)

    @property
    def _last(self) -> Record:
        """The record of the last round."""
        assert self._record is not None  # the first one is always made
        return self._record

    @property
    def _n_attacked(self) -> int:
        """How many images are attacked by now."""
        return self._last.data.attacked

    @property
    def _partial(self) -> bool:
        """Whether only the measures were asked yet that answer in a sentence."""
        return rounds_of(self._last).answers_only

    @property
    def _is_goal_met(self) -> bool:
        """Whether the last round has what the audit goes on until."""
        until = self._audit.plan.until
        return until is not None and not self._partial and until.is_met(self._last)

    @property
    def _duration(self) -> float:
        """Seconds since this command began."""
        return time.perf_counter() - self._audit.began

    def _predict_seconds(self, end: int) -> float:
        """Return how many seconds a round is expected to take, at the pace of those before."""
        return (self._work_of(self._audit.plan, end) - self._work) * self._seconds / max(1, self._work)

    def _work_of(self, plan: Plan, end: int) -> int:
        images = self._audit.images
        passes = replace(plan, round=Round(end)).predict(
            len(images.tested), None if images.train is None else len(images.train)
        )
        return passes.work * len(self._audit.names)

    def _make(self, plan: Plan, end: int) -> Record:
        """Make a round, which asks what a plan says, and note what it took."""
        self._number += 1
        whole, began = self._audit.plan, time.perf_counter()
        look = self._number if whole.until is not None and whole.until.by_precision else 0
        rounds = Rounds(
            number=self._number,
            of=self._most,
            budget=whole.budget,
            until=None if whole.until is None else str(whole.until),
            before=self._before,
            answers_only=plan is not whole,
            look=look,
        )
        # shards of an earlier round are not those of an earlier command
        resumed = None if self._record is None else self._record.run.resumed_shards
        audit = replace(self._audit, plan=replace(plan, round=Round(end, look)))
        self._record = run_prepared(audit, self._engine, self._command, rounds, resumed)
        self._work = self._work_of(plan, end)
        self._seconds += time.perf_counter() - began
        return self._record

    def _find_record(self) -> Record | None:
        """Return the record of a round of this audit that the folder holds; None where it holds none."""
        record = find_record(self._audit.store)
        if record is None or record.run.rounds is None:
            return None
        same = is_of_plan(record, public(dict(self._audit.entry)))
        same_images = record.data.fingerprint == self._audit.images.tested.fingerprint
        return record if same and same_images and record.data.attacked <= self._ends[-1] else None


def rounds_of(record: Record) -> Rounds:
    """Return which round a record is of, which was made in rounds."""
    assert record.run.rounds is not None
    return record.run.rounds


def complete(record: Record) -> bool:
    """Whether a round attacked all images and asked everything, so that none follows it."""
    rounds = rounds_of(record)
    return record.data.attacked >= rounds.of and not rounds.answers_only


def answering(plan: Plan) -> Plan | None:
    """Return a plan that asks only what answers in a sentence; None where nothing does, or everything.

    Of the checks it has those that concern these measures and read nothing else than they do.
    """
    measures = tuple(measure for measure in plan.measures if measure.answers)
    if not measures or len(measures) == len(plan.measures):
        return None
    searches = {search for measure in measures for search in measure.searches}
    read = {observation.key() for measure in measures for observation in measure.prerequisites()}
    checks: Sequence[Any] = [
        check
        for check in plan.checks
        if check.concerns(searches) and {observation.key() for observation in check.prerequisites()} <= read
    ]
    return replace(plan, measures=measures, checks=tuple(checks), until=None)
