"""Compare two encoders of one index: represent, measure, judge, record."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from holdfast.auditing.prepare import check_device
from holdfast.auditing.record import environment, software
from holdfast.config.requirements import parse
from holdfast.core import Encoder, HoldfastError, ImageSource
from holdfast.numerics.geometry.matching import look_alikes
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data import open_images
from holdfast.sources.encoders import check_encoder
from holdfast.storage.entry import as_json
from holdfast.storage.record_file import RECORD as AUDIT
from holdfast.storage.run_folder import Store
from holdfast.workflows.compare_index.canaries import BROKEN, read_canaries
from holdfast.workflows.compare_index.changed import most_changed
from holdfast.workflows.compare_index.encoders import represent
from holdfast.workflows.compare_index.outcome import IndexRecord
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.upgrade import PAIRED, findings, refuse_too_few, upgrade

RECORD = "index.json"
TABLE = "tables/images.parquet"

SCHEMA = 1
"""Version of the record's layout."""


def compare_index(
    plan: IndexPlan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    requirements: Collection[str] = (),
    listener: Listener | None = None,
    command: str = "",
) -> IndexRecord:
    """Compare an old encoder with a new one on the same images, and return the record.

    It is written to `folder/index.json`, with a table of a row for each image, and pictures. Representations are kept
    there: interrupted, or with other questions, the same encoders and images make no pass again.

    The record: `plan`; `data`; `encoders`, the old and the new one; `measures` as records have them; `threshold`, why
    there is none, "" where there is; `translation`, distances of both at the same rates; `canaries`; `changed`, the
    images whose neighbours changed most; `findings` of requirements; `status` and `passed`.
    """
    opened, listener = encoders or {}, listener or Silent()
    for requirement in requirements:
        parse(requirement)  # raises now, not after the passes
    check_device(plan.device)
    for spec in (plan.old, plan.new):
        if spec not in opened:
            check_encoder(spec)
    listener.stage("reading the images")
    images = open_images(
        plan.data if source is None else source, images=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt
    )
    canaries = [] if plan.canaries is None else read_canaries(Path(plan.canaries), images.ids, images.available)
    refuse_too_few(plan, len(images), canaries)  # before any encoder is opened
    store = Store(folder)
    if store.exists(AUDIT):
        raise HoldfastError(f"the folder {str(store.files)!r} holds an audit; choose another --out")

    # Both encoders, one after the other: two may not fit into memory
    old, new = (represent(plan, spec, opened.get(spec), images, store, listener) for spec in (plan.old, plan.new))

    # Neighbours, distances, thresholds and canaries
    alike = torch.cat([look_alikes(side.thumbnails[:PAIRED]) for side in (old, new)])
    upgraded = upgrade(plan, old.represented, new.represented, alike, canaries, images.ids, listener)

    # Images that changed most, and a row for each image
    listener.stage("drawing the images that changed most")
    columns = {name: values for name, (values, _) in upgraded.each.items()}
    store.write_table(TABLE, images.ids, columns)
    changed = most_changed(store, (old.images, new.images), columns["rank_biased_overlap"], max(plan.k), upgraded.lists)
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "holdfast": software(),
        "command": command,
        "plan": asdict(plan),
        "data": {
            "spec": plan.data,
            "description": str(images),
            "available": images.available,
            "images": len(images),
            "paired": upgraded.pairs.images,
            "pairs": upgraded.pairs.count,
            "fingerprint": images.fingerprint,
            "skipped": [list(item) for item in images.unreadable],
        },
        "encoders": {"old": old.entry, "new": new.entry},
        "measures": upgraded.measures,
        "threshold": upgraded.threshold,
        "translation": upgraded.translation,
        "canaries": upgraded.canaries,
        "changed": changed,
        "table": TABLE,
        "environment": environment(),
    }
    record |= _verdict(record, requirements)
    whole = IndexRecord(public(as_json(record)))
    store.write_json(RECORD, whole)
    return whole


def _verdict(record: Mapping[str, Any], requirements: Collection[str]) -> dict[str, Any]:
    """Return what became of requirements and canaries: `findings`, `passed`, and the exit status."""
    answers = findings(record["encoders"]["new"]["name"], record["measures"], record["threshold"], requirements)
    broken = any(canary["outcome"] == BROKEN for canary in record["canaries"])
    passed = all(finding.met for finding in answers) and not broken
    return {
        "findings": answers,
        "passed": passed,
        "status": int(ExitStatus.DONE if passed else ExitStatus.UNMET),
    }
