"""Run a plan: observe (encoder passes), score (none), record. Everything stored on the way is used again."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from holdfast.audit import record as entries
from holdfast.audit.compare import compare
from holdfast.audit.one_encoder import EncoderAudit
from holdfast.audit.plan import Plan, named
from holdfast.audit.relations import relations
from holdfast.audit.series import series_entries
from holdfast.core import Encoder, HoldfastError, ImageSource, Score, Table
from holdfast.data import ImageSet, open_images
from holdfast.errors import first_line, no_labels
from holdfast.listener import Listener, Silent
from holdfast.spec_string import parse
from holdfast.store import Store


def run_audit(
    plan: Plan,
    folder: Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    listener: Listener | None = None,
    command: str = "",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Run an audit and return its record, which is also written to `folder/record.json`.

    A part that fails is recorded with its error and the audit goes on; a killed audit, run again, continues.

    Args:
        plan: what to do.
        folder: the run folder.
        encoders: encoders that are open already, by the names that the plan uses for them.
        source: images that are open already, instead of the plan's data spec.
        listener: told about progress.
        command: how to do it again, for the record.
        overwrite: replace the record of another audit in the same folder.

    Raises:
        HoldfastError: images that cannot be used at all, or that have no labels where a measure reads them, a folder
            that cannot be written, or one that holds the record of another audit.
    """
    started, began = datetime.now(UTC), time.perf_counter()
    names = [spec if spec in (encoders or {}) else label(spec) for spec in plan.encoders]
    if len(set(names)) != len(names):
        raise HoldfastError("two encoders have one name; give one of them another with ?label=")
    _check_device(plan.device)
    images, store = _images(plan, source), Store(folder)
    train, known = _training_images(plan, images)
    attacked = plan.attacked_of(len(images))
    asked = entries.plan_entry(plan, len(images), attacked)
    labels, facts = _labels(plan, images, train), _facts(train)
    _claim(store, asked, " ".join(filter(None, [images.fingerprint, labels, *facts.values()])), overwrite)
    failures: list[str] = []
    found: dict[str, dict[str, tuple[Table, Score]]] = {}
    rows, resumed = [], 0
    for spec, name, slug in zip(plan.encoders, names, entries.slugs(names), strict=True):
        audit = EncoderAudit(plan, name, slug, store, listener or Silent())
        rows.append(audit.run((encoders or {}).get(spec, spec), images, attacked, train))
        failures += audit.failures
        resumed += audit.resumed
        for measure, pair in audit.scored.items():
            found.setdefault(measure, {})[name] = pair
    measures, unfit = named(plan.measures), {row["name"] for row in rows if _meaningless(row)}
    record: dict[str, Any] = {
        "schema": entries.SCHEMA,
        "holdfast": entries.software(),
        "plan": asked | {"command": command},
        "data": {
            "spec": plan.data,
            "synthetic": plan.synthetic,
            "description": str(images),
            "available": images.available,
            "images": len(images),
            "attacked": attacked,
            "fingerprint": images.fingerprint,
            "labels": labels,
            "train": {"spec": plan.train, "images": len(train), "left_out": known, **facts} if train else None,
            "skipped": [list(item) for item in images.skipped],
        },
        "encoders": rows,
        "comparison": {name: compare(measures[name], pair, unfit) for name, pair in found.items() if len(pair) > 1},
        "relations": relations(rows, unfit),
        "series": series_entries(plan.series, dict(zip(plan.encoders, names, strict=True)), found),
        "environment": entries.environment(),
        "failures": failures,
        "run": {
            "started": started.isoformat(timespec="seconds"),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
            "resumed_shards": resumed,
        },
    }
    record = entries.finite(record)
    store.write_json("record.json", record)
    return record


def _claim(store: Store, asked: dict[str, Any], fingerprint: str, overwrite: bool) -> None:
    """Refuse a folder that holds another audit; leave the plan there, so that this one can resume."""
    mine = json.loads(json.dumps({"plan": asked, "data": fingerprint}))
    path = store.folder / "plan.json"
    if path.exists() and not overwrite:
        try:
            theirs = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            theirs = None
        if theirs != mine:
            raise HoldfastError(
                f"the folder {str(store.folder)!r} holds another audit; choose another --out, or add --overwrite "
                "(what both have in common is used again)"
            )
    store.write_json("plan.json", mine)


def _labels(plan: Plan, images: ImageSet, train: ImageSet | None) -> str | None:
    """Return the fingerprint of the labels where a measure reads them; None where none does."""
    if not (readers := plan.labelled()):
        return None
    others = [name for name in named(plan.measures) if name not in readers]
    for source in filter(None, [images, train]):
        if source.labels is None:
            raise no_labels(", ".join(readers), str(source), others)
    return images.labels_fingerprint


def _facts(train: ImageSet | None) -> dict[str, str]:
    """Return the fingerprints of training images and of their labels."""
    if train is None:
        return {}
    return {"fingerprint": train.fingerprint, "labels": train.labels_fingerprint or ""}


def _training_images(plan: Plan, images: ImageSet) -> tuple[ImageSet | None, int]:
    """Open the images that probes learn from, without those of the audit; return how many these were as well.

    The tested images take over the numbers of their classes, by name.
    """
    if plan.train is None:
        return None, 0
    train = open_images(plan.train, size=plan.train_images, seed=plan.seed, skip_corrupt=plan.skip_corrupt)
    given = len(train)
    if (known := train.leave_out(images)) and len(train) < 2:
        raise HoldfastError(
            f"train {plan.train}: expected other images than those of the audit, got {known} of {given} that are among "
            "them; give a training split, or leave it out: probes then learn from the images that are not attacked"
        )
    images.number_classes_as(train)
    return train, known


def label(spec: str) -> str:
    """Return how an encoder is called in the record: its label, or its spec."""
    return parse(spec)[2].get("label", spec)


def _meaningless(row: dict[str, Any]) -> bool:
    """Whether an encoder's numbers mean nothing: it is constant, or not the same function from pass to pass."""
    return any(row["checks"].get(name, {}).get("status") == "fail" for name in ("collapse", "frozen"))


def _check_device(name: str) -> None:
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise HoldfastError(f"device {name!r} cannot be used here: {first_line(error)}") from error


def _images(plan: Plan, source: ImageSource | None) -> ImageSet:
    if source is None:
        return open_images(plan.data, size=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt)
    return ImageSet(source, size=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt)
