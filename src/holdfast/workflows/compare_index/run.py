"""Compare two encoders of one index: represent, measure, judge, record."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from holdfast.auditing.prepare import check_device
from holdfast.auditing.record import environment, software
from holdfast.config.requirements import parse
from holdfast.core import Encoder, HoldfastError, ImageSource
from holdfast.numerics.geometry.matching import look_alikes
from holdfast.runtime.errors import UnreadableRecord
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data import open_images
from holdfast.sources.encoders import check_encoder
from holdfast.storage.answers import Answers, counting
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.index_file import INDEX, read_index
from holdfast.storage.index_upgrade import SCHEMA, Both, IndexImages, IndexPlanEntry, IndexRecord
from holdfast.storage.record_file import RECORD as AUDIT
from holdfast.storage.run_folder import Store, digest
from holdfast.workflows.compare_index.canaries import read_canaries
from holdfast.workflows.compare_index.changed import most_changed
from holdfast.workflows.compare_index.diagnosis import diagnose
from holdfast.workflows.compare_index.encoders import represent
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.upgrade import PAIRED, findings, refuse_too_few, upgrade

TABLE = "tables/images.parquet"


def compare_index(
    plan: IndexPlan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    source: ImageSource | None = None,
    listener: Listener | None = None,
    overwrite: bool = False,
    command: str = "",
) -> IndexRecord:
    """Compare an old encoder with a new one on the same images, and return the record.

    It is written to `folder/index.json`, with a table of a row for each image, and pictures. Representations are kept
    there: interrupted, or with other questions that `overwrite` the first, the same encoders and images make no pass
    again.
    """
    opened, listener = encoders or {}, listener or Silent()
    for requirement in plan.requirements:
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

    # What another comparison in the same folder would answer otherwise
    asked = public(as_json([asdict(plan), images.fingerprint]))
    # Until this returns nobody else writes there
    with closing(store.claim(digest(asked), say=listener.stage)), counting(Answers(store.files)):
        recorded = None if overwrite else _claim(store, asked)

        # Both encoders, one after the other: two may not fit into memory
        old, new = (
            represent(plan, spec, opened.get(spec), images, store, listener, identity)
            for spec, identity in zip((plan.old, plan.new), recorded or (None, None), strict=True)
        )

        # Neighbours, distances, thresholds and canaries
        alike = torch.cat([look_alikes(side.thumbnails[:PAIRED]) for side in (old, new)])
        upgraded = upgrade(plan, old.represented, new.represented, alike, canaries, images.ids, listener)

        # Images that changed most, and a row for each image
        listener.stage("drawing the images that changed most")
        columns = {name: values for name, (values, _) in upgraded.each.items()}
        store.write_table(TABLE, images.ids, columns)
        changed = most_changed(
            store, (old.images, new.images), columns["rank_biased_overlap"], max(plan.k), upgraded.lists
        )

        # Two builds of one network: what makes them differ
        diagnosis = diagnose(plan, (old, new), opened, listener) if plan.same else None

        # What became of requirements and canaries
        distance = plan.compared_by.in_words
        answers = findings(new.entry.name, upgraded.measures, upgraded.threshold, plan.requirements, distance)
        broken = any(canary.is_broken for canary in upgraded.canaries)
        passed = all(finding.met for finding in answers) and not broken
        record = IndexRecord(
            schema=SCHEMA,
            holdfast=software(),
            command=command,
            plan=IndexPlanEntry(**asdict(plan)),
            data=IndexImages(
                spec=plan.data,
                description=str(images),
                available=images.available,
                images=len(images),
                paired=upgraded.pairs.images,
                pairs=upgraded.pairs.count,
                fingerprint=images.fingerprint,
                skipped=images.unreadable,
            ),
            encoders=Both(old=old.entry, new=new.entry),
            distance=distance,
            larger_is_nearer=plan.compared_by.negated,
            measures=upgraded.measures,
            threshold=upgraded.threshold,
            translation=upgraded.translation,
            canaries=upgraded.canaries,
            changed=changed,
            diagnosis=diagnosis,
            table=TABLE,
            environment=environment(),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            findings=answers,
            passed=passed,
            status=int(ExitStatus.DONE if passed else ExitStatus.UNMET),
        )
        # Shown as it is written: without places, and without numbers that are not finite
        written = public(as_json(record))
        store.write_json(INDEX, written)
        return read_json(written, IndexRecord)


def _claim(store: Store, asked: list[Any]) -> tuple[str, str] | None:
    """Return what the encoders were of which a folder holds the comparison; None where it holds none to be believed.

    Raises:
        HoldfastError: it holds that of another request.
    """
    try:
        record = read_index(store.files)
    # One that was interrupted, or damaged, is made again
    except UnreadableRecord:
        return None
    if [as_json(record.plan), record.data.fingerprint] != asked:
        raise HoldfastError(
            f"the folder {str(store.files)!r} holds another comparison; choose another --out, or add --overwrite "
            "(overwrite=True; representations that both have in common are used again)"
        )
    return record.encoders.old.identity, record.encoders.new.identity
