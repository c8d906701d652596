"""Before an audit: its images are opened and its run folder is claimed; no encoder is opened."""

import itertools
import json
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import torch

from holdfast.auditing import record as entries
from holdfast.auditing.balls import describe_balls, shape_of
from holdfast.auditing.images import AuditImages, open_all, open_selected
from holdfast.auditing.plan import Plan, plan_entry
from holdfast.core import Encoder, HoldfastError, ImageSource
from holdfast.core.engine import Engine
from holdfast.core.source_spec import label
from holdfast.runtime.errors import (
    BadPlace,
    BadValue,
    NothingAudited,
    UnreadableRecord,
    Unsupported,
    first_line,
    no_labels,
)
from holdfast.runtime.freed_memory import give_back_freed_memory
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import places, public, restore_paths
from holdfast.sources.data import Selection
from holdfast.sources.encoders import check_encoder
from holdfast.storage.answers import last_call
from holdfast.storage.claim import Claim
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_file import INDEX
from holdfast.storage.record import PlanEntry, Record
from holdfast.storage.record_file import PLAN, read_record
from holdfast.storage.run_folder import Store
from holdfast.storage.seal import SEAL, SHARD, add_seal, unbroken

CACHE = "cache"
"""The subfolder of its shards."""

PLACES = "cache/places.json"
"""Where files and folders of the plan are on this machine; the plan itself, like the record, does not say it."""


@dataclass(frozen=True)
class PreparedAudit:
    """An audit that may begin: what its work items need, and what its record says of images.

    It can be sent to other processes, which open the images and the run folder for themselves.

    Attributes:
        plan: the plan.
        names: of the encoders in the record.
        slugs: of the encoders in files.
        images: the images.
        store: the run folder.
        encoders: encoders that are open already, by the plan's name for them.
        source: images that are open already.
        training: training images that are open already.
        recorded: what the encoders were of which the folder holds a record that is not to be replaced, by name.
        entry: the plan as the record has it.
        labels: the fingerprint of the labels; None where no measure reads them.
        train_facts: the fingerprints of training images and of their labels.
        damaged: how many stored shards were not as they were written, and are made again.
        started: when this began.
        began: the same on the clock that measures how long it takes, in seconds.
        listener: told about progress, in this process.
        claim: its right to the folder, in this process.
        calls_end: number of calls to services, of all that were made for the folder, at which no further one is made;
            None: no limit.
    """

    plan: Plan
    names: tuple[str, ...]
    slugs: tuple[str, ...]
    images: AuditImages
    store: Store
    encoders: Mapping[str, Encoder] = field(default_factory=dict)
    source: ImageSource | None = None
    training: ImageSource | None = None
    recorded: Mapping[str, str] = field(default_factory=dict)
    entry: Mapping[str, Any] = field(default_factory=dict)
    labels: str | None = None
    train_facts: Mapping[str, str] = field(default_factory=dict)
    damaged: int = 0
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    began: float = field(default_factory=time.perf_counter)
    listener: Listener = field(default_factory=Silent)
    claim: Claim = field(default_factory=Claim)
    calls_end: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Send all but what is open here; paths of specs begin in this process's folder."""
        opened = ("images", "store", "listener", "claim")
        sent = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in opened}
        return _open_elsewhere, (sent, self.images.selections, self.store.files.place, os.getcwd())


def _open_elsewhere(
    sent: Mapping[str, Any], selections: tuple[Selection, Selection | None], place: str, home: str
) -> PreparedAudit:
    """Return an audit in another process than that which prepared it."""
    if os.path.isdir(home):  # on another machine it may not be there: then only whole paths and URLs work
        os.chdir(home)
    place = place if "://" in place else os.path.join(home, place)
    if not Folder(place).exists(PLAN):
        raise BadPlace(
            f"expected workers to see the run folder, got none on {socket.gethostname()}: {place!r}; choose an "
            "--out that all of them see: a shared file system, or s3://BUCKET/RUN"
        )
    images = open_selected(sent["plan"], sent["source"], selections, sent["training"])
    return PreparedAudit(**sent, images=images, store=Store(place))


def prepare(
    plan: Plan,
    folder: str | Path,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    training: ImageSource | None = None,
    *,
    overwrite: bool = False,
    engine: Engine | None = None,
    some: bool = False,
    verify: bool = True,
    shared: bool = False,
    listener: Listener | None = None,
) -> PreparedAudit:
    """Open the images of an audit and claim its folder.

    Args:
        plan: see `run_audit`, also for the next five.
        folder: the run folder.
        encoders: encoders that are open already.
        source: images that are open already.
        training: training images that are open already.
        overwrite: replace another audit.
        engine: where encoders run, in another process or on another machine; None: in this process.
        some: go on with encoders that can be opened, where others cannot.
        verify: read all shards that are stored, and delete those that are not as they were written.
        shared: it makes a part of the shards, and others make others in the same folder.
        listener: told about progress.
    """
    started, began, listener = datetime.now(UTC), time.perf_counter(), listener or Silent()
    names = _names(plan.encoders, encoders or {})
    if engine is None or engine.in_process:
        check_device(plan.device)
    if engine is None or engine.here:
        check_encoders(plan, encoders or {}, some)
    listener.stage("reading the images")
    _check_surrogates(plan, encoders or {})
    images, store = open_all(plan, source, training), Store(folder)
    plan = plan.attacking(images.tested.queries)
    for measure in plan.measures:
        measure.check(images.tested.ids)
    if readers := plan.find_relevance_readers():
        images.tested.check_relevance(", ".join(readers))
    for ball in describe_balls(plan.measures, shape_of(images.tested)):
        listener.stage(ball)
    store.sweep()

    # Claim the folder, unless it holds another audit
    labels, facts = _labels(plan, images), _train_facts(images)
    entry = plan_entry(plan, len(images.tested), plan.count_attacked(len(images.tested)))
    data = " ".join(filter(None, [images.tested.fingerprint, labels, *facts.values()]))
    give_back_freed_memory()  # what it took to read all images
    new = add_seal(public(as_json({"plan": entry, "data": data})))
    held = store.claim(new[SEAL], shared=shared, say=listener.stage)
    try:
        record = find_record(store)
        _claim(store, new, places(entry), record, overwrite)
        held.settle()
        damaged = store.forget_damaged(CACHE) if verify else 0
        listener.stage("looking for copies among the images")
        _ = images.tested.duplicates  # here, for all processes
    except BaseException:
        held.close()
        raise
    rows = [] if overwrite or record is None else record.encoders
    return PreparedAudit(
        plan,
        tuple(names),
        tuple(entries.slugs(names)),
        images,
        store,
        encoders or {},
        source,
        training,
        recorded={row.name: row.identity for row in rows if row.identity},
        entry=entry,
        labels=labels,
        train_facts=facts,
        damaged=damaged,
        started=started,
        began=began,
        listener=listener,
        claim=held,
        calls_end=last_call(store.files, plan.calls),
    )


def check_encoders(plan: Plan, opened: Collection[str], some: bool = False) -> None:
    """Look up encoders before any image is read: a name mistyped should cost no pass of the others."""
    failures: list[str] = []
    for spec in plan.encoders:
        try:
            if spec not in opened:
                check_encoder(spec)
        except HoldfastError as error:
            failures.append(f"{label(spec)}: {error}")
    others = len(plan.encoders) - len(failures)
    if failures and not others:
        raise NothingAudited(f"nothing could be audited: {'; '.join(failures)}")
    if failures and not some:
        raise NothingAudited(
            f"nothing was audited: {'; '.join(failures)}; correct it, or leave it out to audit the other {others}"
        )


def _check_surrogates(plan: Plan, opened: Collection[str]) -> None:
    """Look up surrogates before any image is read."""
    for spec in dict.fromkeys(observation.surrogate for observation in plan.observations):
        if spec and spec not in opened:
            try:
                check_encoder(spec)
            except HoldfastError as error:
                raise error.retell(f"surrogate {label(spec)}: {error}") from error


def _names(specs: Sequence[str], opened: Collection[str]) -> list[str]:
    """Return how encoders are called in the record: without the places that they come from."""
    labels = [spec if spec in opened else label(spec) for spec in specs]
    if len(set(labels)) != len(labels):
        raise BadValue("two encoders have one name; give one of them another with ?label=")
    names: list[str] = []
    for name in map(public, labels):
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        names.append(next(choice for choice in itertools.chain([name], numbered) if choice not in names))
    return names


def _claim(
    store: Store,
    new: Mapping[str, Any],
    new_places: dict[str, str],
    record: Record | None,
    overwrite: bool,
) -> None:
    """Refuse a folder that holds another audit; leave the plan there, so that this one can resume.

    A plan of which nothing was made, or that is damaged, claims nothing, nor does a record without any answer; one with
    answers claims its folder without a plan.
    """
    if store.exists(INDEX):
        raise BadPlace(f"the folder {str(store.files)!r} holds a comparison of an index; choose another --out")
    answers = [m for row in record.encoders for m in row.measures.values()] if record else []
    answered = any(m.scores or m.not_certified for m in answers)
    old = store.read_json(PLAN)
    if unbroken(old):
        killed = record is None and any(name.endswith(SHARD) for name in store.names(CACHE))
        is_other = not _same(store, old, new, new_places) and old["plan"] is not None and (answered or killed)
    else:
        differs = record is not None and not is_of_plan(record, new["plan"])
        is_other = differs and answered
    if is_other and not overwrite:
        raise BadPlace(
            f"the folder {str(store.files)!r} holds another audit; choose another --out, or add --overwrite "
            "(what both have in common is used again)"
        )
    store.write_json(PLAN, new)
    private = json.dumps(new_places)
    store.write_text(PLACES, private)


def _same(store: Store, old: Mapping[str, Any], new: Mapping[str, Any], new_places: dict[str, str]) -> bool:
    """Whether two plans are one: of the same places, under whatever names, where the folder still knows them."""
    old_places = store.read_json(PLACES)
    if not isinstance(old_places, dict):
        if old == new:
            return True
        old_places = {}
    return old["data"] == new["data"] and restore_paths(old["plan"], old_places) == restore_paths(
        new["plan"], new_places
    )


def is_of_plan(record: Record, entry: Mapping[str, Any]) -> bool:
    """Whether a record is of a plan, as `plan_entry` has it."""
    plan = msgspec.convert({**entry, "command": record.plan.command}, PlanEntry)
    return as_json(record.plan) == as_json(plan)


def find_record(store: Store) -> Record | None:
    """Return the record that a folder holds; None where there is none, or one that cannot be believed."""
    try:
        return read_record(store.files)
    except UnreadableRecord:
        return None


def _labels(plan: Plan, images: AuditImages) -> str | None:
    """Return the fingerprint of the labels where a measure reads them; None where none does."""
    if not (readers := plan.find_label_readers()):
        return None
    others = [name for name in plan.measures_by_name if name not in readers]
    for source in filter(None, [images.tested, images.train]):
        if source.labels is None:
            raise no_labels(", ".join(readers), str(source), others, source.label_coverage[1])
    return images.tested.labels_fingerprint


def _train_facts(images: AuditImages) -> dict[str, str]:
    """Return the fingerprints of training images and of their labels."""
    if images.train is None:
        return {}
    return {"fingerprint": images.train.fingerprint, "labels": images.train.labels_fingerprint or ""}


def check_device(name: str) -> None:
    """Refuse a device that torch does not have here."""
    try:
        torch.device(name)
    except RuntimeError:
        gpu = "; a GPU is cuda, one of Apple is mps" if name.lower().startswith("gpu") else ""
        raise BadValue(f"device: expected cpu, cuda, cuda:1 or mps, got {name!r}{gpu}") from None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise Unsupported(f"device {name!r} cannot be used here: {first_line(error)}") from error
