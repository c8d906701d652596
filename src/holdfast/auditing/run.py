"""Run a plan: observe (encoder passes), score (none), record. Everything stored on the way is used again."""

import itertools
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from holdfast.auditing import record as entries
from holdfast.auditing.differences import compare
from holdfast.auditing.distribute import distribute
from holdfast.auditing.images import AuditImages, open_all
from holdfast.auditing.plan import Plan
from holdfast.auditing.relations import relations
from holdfast.auditing.series import series_entries
from holdfast.auditing.units import CACHE, PLAN, Job, audited
from holdfast.core import Encoder, HoldfastError, ImageSource, Score, Table
from holdfast.core.spec_string import parse
from holdfast.parts.engines.shared.pool import Engine
from holdfast.runtime.errors import NothingAudited, UnreadableRecord, first_line, no_labels
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import placed, places, public
from holdfast.storage.record_file import RECORD, SCHEMA, digest_of, files_of, read_record, sealed, unbroken
from holdfast.storage.run_folder import SHARD, Store
from holdfast.storage.standing import void_checks

PLACES = "cache/places.json"
"""Where files and folders of the plan are on this machine; the plan itself, like the record, does not say it."""


def run_audit(
    plan: Plan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    training: ImageSource | None = None,
    engine: Engine | None = None,
    listener: Listener | None = None,
    command: str = "",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Run an audit and return its record, which is also written to `folder/record.json`.

    A part that fails is recorded with its error and the audit goes on; a killed audit, run again, continues.

    Args:
        plan: what to do.
        folder: the run folder, a path or a URL, see `Folder`.
        encoders: encoders that are open already, by the names that the plan uses for them.
        source: images that are open already, instead of the plan's data spec.
        training: training images that are open already, instead of the plan's spec of them.
        engine: the workers that observe and score; None: this process. The record is the same.
        listener: told about progress.
        command: how to do it again, for the record.
        overwrite: replace the record of another audit in the same folder.

    Raises:
        HoldfastError: images that cannot be used at all, or that have no labels where a measure reads them, a folder
            that cannot be written, or one that holds the record of another audit, or of other weights behind the same
            name; workers that cannot be started.
        NothingAudited: no encoder could be audited; no record is written, and the folder stays free.
    """
    heard = listener or Silent()
    heard.stage("reading the images")
    ready = prepare(plan, folder, encoders, source, overwrite, here=engine is None, training=training)
    return run_ready(ready, engine, heard, command)


def run_ready(ready: "Ready", engine: Engine | None, heard: Listener, command: str) -> dict[str, Any]:
    """Run an audit that is ready to begin; see `run_audit`."""
    job, images, plan = ready.job, ready.images, ready.job.plan
    if ready.damaged:
        heard.stage(f"{ready.damaged} stored shards are damaged: they are made again")
    if engine is None:
        audits = [job.audit(number, ready.store, heard) for number in range(len(job.names))]
        results = [audited(audit, audit.run(job.encoder(n), images)) for n, audit in enumerate(audits)]
        deaths = 0
    else:
        results, deaths = distribute(job, engine, heard)
        heard.stage("putting the record together")
    failures = [failure for result in results for failure in result.failures]
    if log := "".join(result.log for result in results):
        ready.store.write(LOG, lambda path: path.write_text(public(log), encoding="utf-8"))
    else:
        ready.store.delete(LOG)  # of an earlier run in this folder
    found: dict[str, dict[str, tuple[Table, Score]]] = {}
    for name, result in zip(job.names, results, strict=True):
        for measure, pair in result.scored.items():
            found.setdefault(measure, {})[name] = pair
    rows = [result.row for result in results]
    if all(row["error"] for row in rows):
        raise _nothing(ready, failures)
    measures, unfit = plan.named_measures, {row["name"] for row in rows if void_checks(row, plan.allow)}
    called = dict(zip(plan.encoders, job.names, strict=True))

    def apart(what: str, make: Callable[[], Any], nothing: Any) -> Any:
        """Return what is made of scores that are there; what fails is noted and costs none of them."""
        try:
            with foreign(what, "run"):
                return make()
        except Exception as error:
            failures.append(f"{what}: {first_line(error)}")
            return nothing

    record: dict[str, Any] = {
        "schema": SCHEMA,
        "holdfast": entries.software(),
        "plan": ready.asked | {"command": command},
        "data": entries.data_entry(plan, images, ready.labels, ready.facts),
        "encoders": rows,
        "comparison": {
            name: apart(f"comparison of {name}", partial(compare, measures[name], pair), {"best": None, "pairs": []})
            for name, pair in found.items()
            if len(pair) > 1
        },
        "relations": apart("relations", lambda: relations(rows, unfit), []),
        "series": apart("series", lambda: series_entries(plan.series, called, found), []),
        "environment": entries.environment(),
        "failures": failures,
        "run": {
            "started": ready.started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - ready.began, 3),
            "resumed_shards": sum(result.resumed for result in results),
            "remade_shards": ready.damaged + sum(result.remade for result in results),
            "engine": "this process" if engine is None else engine.title,
            "workers_lost": deaths,
        },
    }
    record = public(entries.finite(json.loads(json.dumps(record))))
    record["files"] = {name: digest_of(ready.store.files.read(name)) for name in sorted(set(files_of(record)))}
    record = sealed(record)
    ready.store.write_json(RECORD, record)
    return record


LOG = "failures.log"
"""The file with tracebacks of what should not have failed."""


@dataclass(frozen=True)
class Ready:
    """An audit that may begin: what its units need, and what its record says of images.

    Attributes:
        job: what is the same for all units.
        images: the images.
        store: the run folder.
        asked: the plan as the record has it.
        labels: the fingerprint of the labels; None where no measure reads them.
        facts: the fingerprints of training images and of their labels.
        started: when this began.
        began: the same on the clock that measures how long it takes, in seconds.
        damaged: how many shards were not as they were written, and are made again.
    """

    job: Job
    images: AuditImages
    store: Store
    asked: dict[str, Any]
    labels: str | None
    facts: dict[str, str]
    started: datetime
    began: float
    damaged: int = 0


def prepare(
    plan: Plan,
    folder: str | Path,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    overwrite: bool = False,
    here: bool = True,
    training: ImageSource | None = None,
    verify: bool = True,
) -> Ready:
    """Open the images of an audit and claim its folder; no encoder is opened.

    Args:
        plan: see `run_audit`, also for the next three.
        folder: the run folder.
        encoders: encoders that are open already.
        source: images that are open already.
        overwrite: replace another audit.
        here: whether encoders run in this process; else its devices do not matter.
        training: training images that are open already.
        verify: read all shards that are stored, and delete those that are not as they were written.

    Raises:
        HoldfastError: as `run_audit`.
    """
    started, began, opened = datetime.now(UTC), time.perf_counter(), encoders or {}
    names = _names(plan.encoders, opened)
    if here:
        check_device(plan.device)
    images, store = open_all(plan, source, training), Store(folder)
    store.sweep()
    labels, facts = _labels(plan, images), _facts(images)
    asked = entries.plan_entry(plan, len(images.tested), plan.attacked_of(len(images.tested)))
    data = " ".join(filter(None, [images.tested.fingerprint, labels, *facts.values()]))
    record = _recorded(store)
    _claim(store, asked, data, record, overwrite)
    kept = [] if overwrite or record is None else record["encoders"]
    recorded = {row["name"]: row["identity"] for row in kept if row.get("identity")}
    slugs = tuple(entries.slugs(names))
    job = Job(plan, tuple(names), slugs, store.files.place, images.known, opened, source, training, recorded=recorded)
    damaged = store.forget_damaged(CACHE) if verify else 0
    return Ready(job, images, store, asked, labels, facts, started, began, damaged)


def _names(specs: Sequence[str], opened: Collection[str]) -> list[str]:
    """Return how encoders are called in the record: without the places that they come from.

    Raises:
        HoldfastError: two with one name.
    """
    whole = [spec if spec in opened else label(spec) for spec in specs]
    if len(set(whole)) != len(whole):
        raise HoldfastError("two encoders have one name; give one of them another with ?label=")
    names: list[str] = []
    for name in map(public, whole):
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        names.append(next(one for one in itertools.chain([name], numbered) if one not in names))
    return names


def _claim(
    store: Store, asked: dict[str, Any], fingerprint: str, record: Mapping[str, Any] | None, overwrite: bool
) -> None:
    """Refuse a folder that holds another audit; leave the plan there, so that this one can resume.

    A plan of which nothing was made, or that is damaged, claims nothing, nor does a record without any answer; one with
    answers claims its folder without a plan.
    """
    answers = [m for row in record["encoders"] for m in row.get("measures", {}).values()] if record else []
    answered = any(m["scores"] or m.get("not_certified") for m in answers)
    mine = sealed(json.loads(json.dumps(public({"plan": asked, "data": fingerprint}))))
    held, here = store.read_json(PLAN), places(asked)
    if unbroken(held):
        killed = record is None and any(name.endswith(SHARD) for name in store.names(CACHE))
        another = not _same(store, held, mine, here) and held["plan"] is not None and (answered or killed)
    else:
        another = record is not None and any(record["plan"].get(key) != mine["plan"][key] for key in mine["plan"])
        another = another and answered
    if another and not overwrite:
        raise HoldfastError(
            f"the folder {str(store.files)!r} holds another audit; choose another --out, or add --overwrite "
            "(what both have in common is used again)"
        )
    store.write_json(PLAN, mine)
    private = json.dumps(here)
    store.write(PLACES, lambda path: path.write_text(private, encoding="utf-8"))


def _same(store: Store, held: Mapping[str, Any], mine: Mapping[str, Any], here: dict[str, str]) -> bool:
    """Whether two plans are one: of the same places, under whatever names, where the folder still knows them."""
    there = store.read_json(PLACES)
    if held == mine and not isinstance(there, dict):
        return True
    known = there if isinstance(there, dict) else {}
    return held["data"] == mine["data"] and placed(held["plan"], known) == placed(mine["plan"], here)


def _recorded(store: Store) -> dict[str, Any] | None:
    """Return the record that a folder holds; None where there is none, or one that cannot be believed."""
    try:
        return read_record(store.files)
    except UnreadableRecord:
        return None


def _nothing(ready: Ready, failures: Sequence[str]) -> NothingAudited:
    """Give up the claim of an audit that came to nothing, unless the folder holds its record; return the error."""
    if _recorded(ready.store) is None:
        ready.store.write_json(PLAN, sealed({"plan": None, "data": ""}))
    log = f"; tracebacks are in {ready.store.files.named(LOG)!r}" if ready.store.exists(LOG) else ""
    return NothingAudited(f"nothing could be audited: {'; '.join(failures)}{log}")


def _labels(plan: Plan, images: AuditImages) -> str | None:
    """Return the fingerprint of the labels where a measure reads them; None where none does."""
    if not (readers := plan.labelled()):
        return None
    others = [name for name in plan.named_measures if name not in readers]
    for source in filter(None, [images.tested, images.train]):
        if source.labels is None:
            raise no_labels(", ".join(readers), str(source), others)
    return images.tested.labels_fingerprint


def _facts(images: AuditImages) -> dict[str, str]:
    """Return the fingerprints of training images and of their labels."""
    if images.train is None:
        return {}
    return {"fingerprint": images.train.fingerprint, "labels": images.train.labels_fingerprint or ""}


def label(spec: str) -> str:
    """Return how an encoder is called in the record: its label, or its spec."""
    return parse(spec)[2].get("label", spec)


def check_device(name: str) -> None:
    """Refuse a device that torch does not have here.

    Raises:
        HoldfastError: such a device.
    """
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise HoldfastError(f"device {name!r} cannot be used here: {first_line(error)}") from error
