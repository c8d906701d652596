"""Run an audit that may begin: observe (encoder passes), score (none), record. What is stored is used again."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.auditing import record as entries
from holdfast.auditing.differences import compare
from holdfast.auditing.execute import execute, results_of
from holdfast.auditing.images import first_of_pictures
from holdfast.auditing.prepare import PLAN, PreparedAudit, find_record
from holdfast.auditing.relations import relations
from holdfast.auditing.series import series_entries
from holdfast.core import HoldfastError, Measure, Score, Table
from holdfast.core.engine import Engine
from holdfast.numerics.statistics.copies import rows_of_pictures
from holdfast.runtime.errors import NothingAudited, first_line
from holdfast.runtime.foreign import foreign
from holdfast.runtime.privacy import public
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.record import SCHEMA, Compared, PlanEntry, Record, Rounds, RunEntry
from holdfast.storage.record_file import LOG, RECORD, SEAL, add_seal, digest_of, files_of
from holdfast.storage.run_folder import Store
from holdfast.storage.standing import void_checks

T = TypeVar("T")


def run_prepared(
    audit: PreparedAudit, engine: Engine, command: str = "", rounds: Rounds | None = None, resumed: int | None = None
) -> Record:
    """Run an audit that may begin, in one go, and return its record, which is also written to the run folder.

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
    names = dict(zip(plan.encoders, audit.names, strict=True))
    look = 0 if plan.round is None else plan.round.look

    def tables_of(measure: str) -> dict[str, Table]:
        """Return the tables of one measure; those of all, of many images, would take much memory."""
        return {name: store.read_table(file) for name, (file, _) in scored[measure].items()}

    def compare_encoders(name: str) -> Compared:
        """Return the comparison of all encoders on one measure."""
        first, *others = asked[name].values()
        if any(other != first for other in others):
            raise HoldfastError(
                "expected the same question for all encoders, got other parts of it left out for some; ask for what "
                "fits all of them"
            )
        pictures = first_of_pictures(images.tested)
        tables = {e: rows_of_pictures(first, table, pictures) for e, table in tables_of(name).items()}
        return compare(first, {e: (tables[e], score) for e, (_, score) in scored[name].items()}, look)

    def apart(title: str, make: Callable[[], T], default: T) -> T:
        """Return what is made of scores that are there; what fails is noted and costs none of them."""
        try:
            with foreign(title, "run"):
                return make()
        except Exception as error:
            failures.append(f"{title}: {first_line(error)}")
            return default

    store.write_table(entries.IMAGES, images.tested.ids, {})
    record = Record(
        schema=SCHEMA,
        holdfast=entries.software(),
        plan=msgspec.convert({**audit.entry, "command": command}, PlanEntry),
        data=entries.data_entry(plan, images, audit.labels, audit.train_facts),
        encoders=rows,
        comparison={
            name: apart(f"comparison of {name}", partial(compare_encoders, name), Compared(best=None, pairs=[]))
            for name, by_encoder in scored.items()
            if len(by_encoder) > 1
        },
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
    return replace(record, seal=data[SEAL])


def _nothing(store: Store, failures: Sequence[str]) -> NothingAudited:
    """Give up the claim of an audit that came to nothing, unless the folder holds its record; return the error."""
    if find_record(store) is None:
        store.write_json(PLAN, add_seal({"plan": None, "data": ""}))
    log = f"; tracebacks are in {store.files.format_path(LOG)!r}" if store.exists(LOG) else ""
    return NothingAudited(f"nothing could be audited: {'; '.join(failures)}{log}")
