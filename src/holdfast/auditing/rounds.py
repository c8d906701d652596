"""An audit in rounds: a first answer soon, then more images, until its time is over or its precision reached.

Images are in a seeded random order, and what is observed of one does not depend on how many others are attacked. So
each round adds images to those of the round before, and its record is that of an audit of so many images made in one
go, which is a single round. The first round asks only the measures that answer in a sentence.
"""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from holdfast.auditing import record as entries
from holdfast.auditing.differences import Contest, compare, decide
from holdfast.auditing.execute import INLINE, execute, results_of
from holdfast.auditing.images import first_of_pictures
from holdfast.auditing.plan import Plan, Round
from holdfast.auditing.prepare import PreparedAudit, find_record, is_of_plan
from holdfast.auditing.progress_file import ProgressFile
from holdfast.auditing.relations import relations
from holdfast.auditing.series import series_entries
from holdfast.auditing.services import fits_calls
from holdfast.auditing.shards import ends_of_rounds
from holdfast.core import Measure, Score, Table
from holdfast.core.engine import Engine
from holdfast.numerics.statistics.copies import rows_of_pictures
from holdfast.runtime.errors import Mismatch, NothingAudited, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.privacy import public
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.record import SCHEMA, Ended, PlanEntry, Record, Rounds, RunEntry
from holdfast.storage.record_file import LOG, PLAN, RECORD, files_of
from holdfast.storage.run_folder import Store
from holdfast.storage.seal import SEAL, add_seal, digest_of
from holdfast.storage.standing import find_bars, is_rival, void_checks

T = TypeVar("T")

AT_ONCE = 10.0
"""Seconds that a round may take however short those before it were."""


def run_rounds(audit: PreparedAudit, engine: Engine = INLINE, command: str = "") -> Generator[Record, None, None]:
    """Run an audit, and yield its record after each round, and once more at its end, see `is_last`.

    An audit with neither a budget nor an aim is made in one go, and has one record. Else a first round is always made.
    Another one begins where, by the pace of those before, it ends within the budget; it adds as many images as take no
    longer than all of them together, or else as few as it can. A folder that holds a round of this audit goes on after
    it, and the budget is that of each command. Each record stands in the run folder when it is yielded;
    `record.run.rounds` says which round it is, and why none follows, see `Rounds`.

    A keyboard interrupt, one that is thrown in too, ends the audit with what is there. While it is at work a local
    folder holds `progress.json`, see `ProgressFile`.
    """
    with closing(audit.claim), ProgressFile(audit) as progress:
        audit = replace(audit, listener=progress)
        if not audit.plan.in_rounds:
            yield run_round(audit, engine, command)
            return
        rounds = _Rounds(audit, engine, command)
        record = rounds.begin()
        try:
            progress.add_round(record)
            yield record
            while (end := rounds.next_end()) is not None:
                record = rounds.go_on(end)
                progress.add_round(record)
                yield record
            ended = rounds.why_over()
        except KeyboardInterrupt:
            ended = "interrupted"
        yield rounds.close(ended)


def is_last(record: Record) -> bool:
    """Whether no other record of its audit follows."""
    return record.run.rounds is None or record.run.rounds.ended is not None


class _Rounds:
    """The rounds of an audit so far."""

    def __init__(self, audit: PreparedAudit, engine: Engine, command: str):
        self._audit, self._engine, self._command = audit, engine, command
        plan, tested = audit.plan, audit.images.tested
        self._ends = ends_of_rounds(plan, len(tested), tested.shape)
        self._most = plan.count_attacked(len(tested))
        self._answering = answering(plan)
        self._record: Record | None = None
        self._number, self._before = 0, 0.0
        self._opening = self._duration  # what every command takes before its first round
        self._work, self._seconds = 0, 0.0  # of all rounds: predicted encoder passes, and how long they took

    def begin(self) -> Record:
        """Make the first round; or the last one that is recorded again, of which all that it observed is stored."""
        recorded = self._find_record()
        if recorded is None:
            return self._make(self._answering or self._audit.plan, self._ends[0])
        rounds, run = _rounds_of(recorded), recorded.run
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
        # Of this command alone: an earlier one has had its own budget
        budget, spent = self._audit.plan.budget, self._duration
        if self._is_goal_met:
            return None
        within = [end for end in self._affordable if budget is None or spent + self._predict_seconds(end) <= budget]
        soon = [end for end in within if self._predict_seconds(end) <= max(AT_ONCE, self._before + spent)]
        return max(soon) if soon else min(within, default=None)

    def why_over(self) -> Ended:
        """Return why no further round is made."""
        if self._is_goal_met:
            return "until"
        if complete(self._last):
            return "complete"
        return "calls" if self._next_ends and not self._affordable else "budget"

    def close(self, ended: Ended) -> Record:
        """Write into the record why there is no further round, and return it."""
        run = self._last.run
        # Whoever goes on wants to know which budget is enough
        needs = None
        if ended == "budget" and (ends := self._next_ends):
            needs = self._opening + self._predict_seconds(ends[0])
        rounds = structs.replace(_rounds_of(self._last), ended=ended, needs=needs)
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
    def _next_ends(self) -> list[int]:
        """How many images may be attacked by the end of the next round."""
        attacked = self._n_attacked
        return [end for end in self._ends if end >= attacked and (end > attacked or self._partial)]

    @property
    def _affordable(self) -> list[int]:
        """Those of them for which services get no more calls than they may."""
        audit = self._audit
        return [end for end in self._next_ends if fits_calls(audit, replace(audit.plan, round=Round(end)))]

    @property
    def _partial(self) -> bool:
        """Whether only the measures were asked yet that answer in a sentence."""
        return _rounds_of(self._last).answers_only

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
        train = None if images.train is None else len(images.train)
        return replace(plan, round=Round(end)).predict_work(len(images.tested), train) * len(self._audit.names)

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
        self._record = run_round(audit, self._engine, self._command, rounds, resumed)
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


def _rounds_of(record: Record) -> Rounds:
    """Return which round a record is of, which was made in rounds."""
    assert record.run.rounds is not None
    return record.run.rounds


def complete(record: Record) -> bool:
    """Whether a round attacked all images and asked everything, so that none follows it."""
    rounds = _rounds_of(record)
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


def run_round(
    audit: PreparedAudit, engine: Engine, command: str = "", rounds: Rounds | None = None, resumed: int | None = None
) -> Record:
    """Run a round, or an audit in one go, and return its record, which is also written to the run folder.

    Args:
        audit: what is to be run.
        engine: where.
        command: that asks it again.
        rounds: which round of an audit it is; None: it is made in one go.
        resumed: how many shards an earlier command had stored; None: as many as there were.
    """
    plan, images, store = audit.plan, audit.images, audit.store
    if audit.damaged:
        audit.listener.stage(f"{audit.damaged} stored shards are damaged: they are made again")
    schedule = execute(audit, engine)
    results = results_of(audit, schedule)

    # Keep tracebacks; where no encoder could be audited there is no record
    audit.listener.stage("putting the record together")
    failures = [failure for result in results for failure in result.failures]
    if log := "".join(result.log for result in results):
        store.write_text(LOG, public(log))
    else:
        store.delete(LOG)  # of an earlier run in this folder
    rows = [result.entry for result in results]
    if all(row.error for row in rows):
        raise _nothing(store, failures)

    # Compare the encoders on each measure
    scored: dict[str, dict[str, tuple[str, Score]]] = {}
    asked: dict[str, dict[str, Measure]] = {}  # by encoder, whose images an entry of a list may not fit
    for name, result in zip(audit.names, results, strict=True):
        for measure, file_and_score in result.scored.items():
            scored.setdefault(measure, {})[name] = file_and_score
            asked.setdefault(measure, {})[name] = result.reduced.get(measure, plan.measures_by_name[measure])
    unfit = {row.name for row in rows if void_checks(row, plan.allow)}
    barred = {row.name for row in rows if find_bars(row, plan.allow)}
    no_rivals = {row.name for row in rows if not is_rival(row, plan.allow)}
    names = dict(zip(plan.encoders, audit.names, strict=True))
    look = 0 if plan.round is None else plan.round.look

    def tables_of(measure: str) -> dict[str, Table]:
        """Return the tables of one measure; those of all, of many images, would take much memory."""
        return {name: store.read_table(file) for name, (file, _) in scored[measure].items()}

    def compare_encoders(name: str) -> Contest:
        """Return the comparison of all encoders on one measure."""
        first, *others = asked[name].values()
        if any(other != first for other in others):
            raise Mismatch(
                "expected the same question for all encoders, got other parts of it left out for some; ask for what "
                "fits all of them"
            )
        pictures = first_of_pictures(images.tested)
        tables = {e: rows_of_pictures(first, table, pictures) for e, table in tables_of(name).items()}
        fit = {e: (tables[e], score) for e, (_, score) in scored[name].items() if e not in unfit}
        return compare(first, fit, no_rivals, look)

    def apart(title: str, make: Callable[[], T], default: T) -> T:
        """Return what is made of scores that are there; what fails is noted and costs none of them."""
        try:
            with foreign(title, "run"):
                return make()
        except Exception as error:
            failures.append(f"{title}: {first_line(error)}")
            return default

    # the verdicts of all measures together, as a comparison of this audit alone gives them
    several = [name for name, by_encoder in scored.items() if len(by_encoder) > 1]
    none = Contest("", [], [], {})
    contests = {name: apart(f"comparison of {name}", partial(compare_encoders, name), none) for name in several}
    decided = decide({name: (contest.better, contest.pairs) for name, contest in contests.items()})
    store.write_table(entries.IMAGES, images.tested.ids, {})
    record = Record(
        schema=SCHEMA,
        holdfast=entries.software(),
        plan=msgspec.convert({**audit.entry, "command": command}, PlanEntry),
        data=entries.data_entry(plan, images, audit.labels, audit.train_facts),
        encoders=rows,
        comparison={n: contest.conclude(decided[n], no_rivals, barred) for n, contest in contests.items()},
        relations=apart("relations", lambda: relations(rows, unfit), []),
        series=apart("series", lambda: series_entries(plan.series, names, scored, tables_of), []),
        environment=entries.environment(),
        failures=failures,
        run=RunEntry(
            started=audit.started.isoformat(timespec="seconds"),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.perf_counter() - audit.began, 3),
            resumed_shards=sum(result.resumed for result in results) if resumed is None else resumed,
            remade_shards=audit.damaged + sum(result.remade for result in results),
            engine=engine.title,
            workers_lost=schedule.deaths,
            rounds=rounds,
        ),
    )

    # Name the files that it speaks of with their digests, so that the seal is of these too
    data = public(as_json(record))
    files = {name: digest_of(store.files.read(name)) for name in sorted(set(files_of(data)))}
    return write_record(store, read_json(data | {"files": files}, Record))


def write_record(store: Store, record: Record) -> Record:
    """Write a record into the run folder with its seal, and return it."""
    data = add_seal(as_json(record))
    store.write_json(RECORD, data)
    return structs.replace(record, seal=data[SEAL])


def _nothing(store: Store, failures: Sequence[str]) -> NothingAudited:
    """Give up the claim of an audit that came to nothing, unless the folder holds its record; return the error."""
    if find_record(store) is None:
        store.write_json(PLAN, add_seal(public({"plan": None, "data": "", "error": "; ".join(failures)})))
    log = f"; tracebacks are in {store.files.format_path(LOG)!r}" if store.exists(LOG) else ""
    return NothingAudited(f"nothing could be audited: {'; '.join(failures)}{log}")
