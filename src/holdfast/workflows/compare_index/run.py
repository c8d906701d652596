"""Compare two encoders of one index: represent, measure, judge, record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.auditing.prepare import check_device
from holdfast.auditing.record import environment, software
from holdfast.auditing.services import Sending, refuse_sendings
from holdfast.config.requirements import parse
from holdfast.core import Encoder, ImageSource
from holdfast.numerics.geometry.matching import look_alikes
from holdfast.runtime.errors import BadPlace, UnreadableRecord
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data import open_images
from holdfast.sources.data.shared.in_words import plural
from holdfast.sources.encoders import check_encoder
from holdfast.sources.vectors import Vectors, is_stored, open_vectors
from holdfast.storage.answers import Answers, counting, last_call
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.index_file import INDEX, read_index
from holdfast.storage.index_upgrade import (
    SCHEMA,
    Attacked,
    Both,
    Diagnosis,
    IndexEncoder,
    IndexImages,
    IndexRecord,
    Proved,
)
from holdfast.storage.record_file import RECORD as AUDIT
from holdfast.storage.run_folder import Store, digest
from holdfast.workflows.compare_index.attacked import attack
from holdfast.workflows.compare_index.both import join, open_both
from holdfast.workflows.compare_index.canaries import read_canaries
from holdfast.workflows.compare_index.changed import draw_into, most_changed
from holdfast.workflows.compare_index.diagnosis import diagnose, diagnose_vectors
from holdfast.workflows.compare_index.encoders import foresee, represent
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.proved import prove
from holdfast.workflows.compare_index.stored import draw, entry_of, find_copies, match, side_of
from holdfast.workflows.compare_index.upgrade import PAIRED, Drawn, Upgrade, findings, refuse_too_few, upgrade

TABLE = "tables/images.parquet"


def compare_index(
    plan: IndexPlan,
    folder: str | Path,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    vectors: Mapping[str, Vectors] | None = None,
    source: ImageSource | None = None,
    listener: Listener | None = None,
    overwrite: bool = False,
    command: str = "",
    say: Callable[[str], object] = lambda text: None,
) -> IndexRecord:
    """Compare an old encoder with a new one on the same images, and return the record.

    It is written to `folder/index.json`, with a table of a row for each image, and pictures. Representations are kept
    there: interrupted, or with other questions that `overwrite` the first, the same encoders and images make no pass
    again. Either side may be stored vectors, of the images by their ids; both may, without images. `say` is told which
    services get how many images, before they get any.
    """
    opened, listener = encoders or {}, listener or Silent()
    for requirement in plan.requirements:
        parse(requirement)  # raises now, not after the passes
    check_device(plan.device)
    for spec in (plan.old, plan.new):
        if spec not in opened and not is_stored(spec):
            check_encoder(spec)
    stored = {spec: None for spec in (plan.old, plan.new) if is_stored(spec)} | dict(vectors or {})
    for spec in [spec for spec, held in stored.items() if held is None]:
        listener.stage(f"reading {public(spec)}")
        stored[spec] = open_vectors(spec)
    held = {spec: each for spec, each in stored.items() if each is not None}
    asked = Asked(plan, folder, listener, overwrite, command)
    if plan.noun == "item":
        return _compare_stored(asked, held[plan.old], held[plan.new])

    listener.stage("reading the images")
    images = open_images(
        plan.data if source is None else source, images=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt
    )
    canaries = [] if plan.canaries is None else read_canaries(Path(plan.canaries), images.ids, images.available)
    refuse_too_few(plan, len(images), canaries)  # before any encoder is opened
    sent = foresee(plan, opened, held, images)
    with asked.claim(images.fingerprint, sent) as recorded:
        for sending in sent:
            say(str(sending))
        store = asked.store
        # Both encoders, one after the other: two may not fit into memory; those that are asked together must
        pair = open_both(plan, opened, images, listener) if plan.attacked or plan.proved else None
        found = [
            None if spec in held else represent(plan, spec, opened.get(spec), images, store, listener, identity, ready)
            for spec, identity, ready in zip(
                (plan.old, plan.new), recorded or (None, None), pair or (None, None), strict=True
            )
        ]
        notes: list[str] = []
        known = next(side for side in found if side is not None)
        old, new = (
            side or side_of(held[spec], known, notes) for spec, side in zip((plan.old, plan.new), found, strict=True)
        )

        # Neighbours, distances, thresholds and canaries
        alike = torch.cat([look_alikes(side.thumbnails[:PAIRED]) for side in (old, new)])
        every = torch.arange(len(images))
        # What an index finds itself is held against the whole of it
        drawn = Drawn(every, every[:PAIRED]) if old.represented.finds or new.represented.finds else None
        upgraded = upgrade(plan, old.represented, new.represented, alike, canaries, images.ids, listener, drawn)

        # Small changes on which both disagree, and up to which size there is none
        attacked = proved = None
        if pair is not None:
            both = join(plan, (old, new), pair, store, listener)
            if plan.attacked:
                attacked, measured = attack(plan, (old, new), both, listener)
                upgraded.measures.update(measured)
            if plan.proved:
                proved, measured = prove(plan, both, notes, listener)
                upgraded.measures.update(measured)

        # Images that changed most, and a row for each image
        listener.stage("drawing the images that changed most")
        data = IndexImages(
            spec=plan.data,
            description=str(images),
            available=images.available,
            images=len(images),
            paired=upgraded.pairs.images,
            pairs=upgraded.pairs.count,
            fingerprint=images.fingerprint,
            skipped=images.unreadable,
        )
        picture = draw_into(store, (old.images, new.images))
        # Two builds of one network: what makes them differ
        diagnosis = diagnose(plan, (old, new), opened, tuple(held), listener) if plan.same else None
        sides = Both(old=old.entry, new=new.entry)
        return asked.record(sides, data, upgraded, images.ids, None, picture, notes, diagnosis, attacked, proved)


def _compare_stored(asked: "Asked", old: Vectors, new: Vectors) -> IndexRecord:
    """Compare two sides of stored vectors: what needs images is left out."""
    plan, listener = asked.plan, asked.listener
    listener.stage("matching items by their ids")
    matched = match(old, new)
    fingerprint = digest([side.survey.fingerprint for side in (old, new)])
    canaries = (
        [] if plan.canaries is None else read_canaries(Path(plan.canaries), matched.ids, len(matched.ids), plan.noun)
    )
    refuse_too_few(plan, len(matched.ids), canaries)
    drawn = draw(matched, plan.queries, plan.seed)
    with asked.claim(fingerprint):
        upgraded = upgrade(
            plan, matched.old, matched.new, find_copies(matched, drawn), canaries, matched.ids, listener, drawn
        )
        data = IndexImages(
            spec="",
            description=f"stored vectors of {plural(len(matched.ids), 'item')}",
            available=max(len(old), len(new)),
            images=len(matched.ids),
            paired=upgraded.pairs.images,
            pairs=upgraded.pairs.count,
            fingerprint=fingerprint,
            skipped=[],
        )
        notes = [*matched.notes, "pictures, edited copies and look-alikes are left out: there are no images"]
        if drawn.queries is not None:
            notes.append(
                f"neighbours of {plural(len(drawn.queries), 'item')} are looked for among all {len(matched.ids):,}: "
                "intervals of lists are about all queries drawn from this index"
            )
        sides = Both(old=entry_of(old), new=entry_of(new))
        diagnosis = diagnose_vectors(matched.old.reps, matched.new.reps) if plan.same else None
        return asked.record(sides, data, upgraded, matched.ids, drawn.queries, lambda place: "", notes, diagnosis)


@dataclass(frozen=True)
class Asked:
    """A comparison, where it is kept, and who hears of it."""

    plan: IndexPlan
    folder: str | Path
    listener: Listener
    overwrite: bool
    command: str

    @cached_property
    def store(self) -> Store:
        """The folder, which is made where it is first needed: what is refused leaves none."""
        return Store(self.folder)

    @contextmanager
    def claim(self, fingerprint: str, sent: Sequence[Sending] = ()) -> Iterator[tuple[str, str] | None]:
        """Take the folder, and give what the encoders were of which it holds the comparison; see `_claim`.

        Raises:
            HoldfastError: it holds something else, or more is to be sent to services than is allowed.
        """
        if self.store.exists(AUDIT):
            raise BadPlace(f"the folder {str(self.store.files)!r} holds an audit; choose another --out")
        # What another comparison in the same folder would answer otherwise
        asked = public(as_json([self.plan.entry, fingerprint]))
        # Until this ends nobody else writes there
        with closing(self.store.claim(digest(asked), say=self.listener.stage)):
            known = None if self.overwrite else _claim(self.store, asked)
            # Calls of earlier commands in the folder count on both sides
            calls, end = self.plan.calls, last_call(self.store.files, self.plan.calls)
            if calls is not None and end is not None:
                refuse_sendings(sent, calls, end, "compare")
            with counting(Answers(self.store.files, end)):
                yield known

    def record(
        self,
        encoders: Both[IndexEncoder],
        data: IndexImages,
        upgraded: Upgrade,
        ids: Sequence[str],
        queries: Int[Tensor, "queries"] | None,
        picture: Callable[[int], str],
        notes: Sequence[str],
        diagnosis: Diagnosis | None,
        attacked: Attacked | None = None,
        proved: Proved | None = None,
    ) -> IndexRecord:
        """Write what became of everything, requirements and canaries too, and return it as it is written."""
        plan = self.plan
        columns = {name: values for name, (values, _) in upgraded.each.items()}
        listed = ids if queries is None else [str(ids[place]) for place in queries.tolist()]
        self.store.write_table(TABLE, listed, columns)
        changed = most_changed(ids, picture, columns["rank_biased_overlap"], max(plan.k), upgraded.lists, queries)
        distance = plan.compared_by.in_words
        answers = findings(encoders.new.name, upgraded.measures, upgraded.threshold, plan.requirements, distance)
        broken = any(canary.is_broken for canary in upgraded.canaries)
        passed = all(finding.met for finding in answers) and not broken
        record = IndexRecord(
            schema=SCHEMA,
            holdfast=software(),
            command=self.command,
            plan=plan.entry,
            data=data,
            encoders=encoders,
            distance=distance,
            larger_is_nearer=plan.compared_by.negated,
            measures=upgraded.measures,
            threshold=upgraded.threshold,
            translation=upgraded.translation,
            canaries=upgraded.canaries,
            noun=plan.noun,
            changed=changed,
            diagnosis=diagnosis,
            attacked=attacked,
            proved=proved,
            table=TABLE,
            environment=environment(),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            findings=answers,
            passed=passed,
            status=int(ExitStatus.DONE if passed else ExitStatus.UNMET),
            notes=list(notes),
        )
        # Shown as it is written: without places, and without numbers that are not finite
        written = public(as_json(record))
        self.store.write_json(INDEX, written)
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
        raise BadPlace(
            f"the folder {str(store.files)!r} holds another comparison; choose another --out, or add --overwrite "
            "(overwrite=True; representations that both have in common are used again)"
        )
    return record.encoders.old.identity, record.encoders.new.identity
