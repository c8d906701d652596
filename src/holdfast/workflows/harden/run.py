"""Hardening: adversarial fine-tuning of any encoder, without labels, with an audit before and after and its price."""

import shlex
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from holdfast.auditing.rounds import write_record
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, HoldfastError, registry
from holdfast.report.html import write_report
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public, public_command
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import find_weights_suffix, open_encoder
from holdfast.sources.encoders.shared.copies import copy_encoder, with_weights
from holdfast.sources.encoders.shared.equip import load
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.hardening import HardeningImages, HardeningRecord, TriedRate
from holdfast.storage.run_folder import Store
from holdfast.training.images import TrainingImages
from holdfast.training.learner import learner
from holdfast.training.loop import train
from holdfast.training.pace import Pace
from holdfast.workflows.harden import doubts
from holdfast.workflows.harden.audits import Audits, Opened
from holdfast.workflows.harden.outcome import changes, drift
from holdfast.workflows.harden.plan import RECORD, Hardening
from holdfast.workflows.harden.rate import UNTRIED, losses

ENCODER, PLAN = "encoder.safetensors", "harden-plan.json"


@dataclass(frozen=True)
class Hardened:
    """What came of a hardening.

    Attributes:
        encoder: the hardened encoder, frozen.
        record: as `harden.json` has it.
    """

    encoder: Encoder
    record: HardeningRecord


def harden(
    hardening: Hardening, folder: Path, *, opened: Opened | None = None, listener: Listener | None = None
) -> Hardened:
    """Harden an encoder; interrupted, the same call goes on, in steps to the same weights.

    The folder holds `encoder.safetensors`, the hardened weights; `audit/`, one audit of both encoders on images that
    were not learned from, with its report; `accuracy/`, that of classifiers of them, where there are labels;
    `harden.json`, the record; and what a training leaves.
    """
    # The encoder, the images held out for its audits, and those that it learns from
    opened, listener = opened or Opened(), listener or Silent()
    start = opened.encoder or open_encoder(hardening.encoder)
    share = learner(start, hardening.recipe()).in_words  # raises now, not after the images are read
    available = open_images(opened.data or hardening.data, seed=hardening.seed)
    hardening, geometry = hardening.in_ball(available), start.geometry or available.common_geometry
    after = None if opened.encoder else with_weights(hardening.encoder, folder / ENCODER)
    audits = Audits.of(hardening, after, opened)
    held_out = open_images(audits.images, images=audits.size, seed=hardening.seed, geometry=geometry)
    learned = TrainingImages(
        opened.data or hardening.data,
        geometry=geometry,
        seed=hardening.seed,
        device=hardening.device,
        leave_out=held_out,
    )
    accuracy = audits.with_labels(held_out, learned.labels is not None)

    # Train, unless an earlier run has
    store = Store(folder)
    pace = _pace(hardening, store, _identity(hardening, start, held_out, learned))
    warnings = doubts.before(start)
    for line in warnings:
        listener.stage(line)
    rates = _rates(hardening, store, start, learned, listener)
    hardening = replace(hardening, rate=rates[0].rate)
    trained = _train_encoder(hardening, store, start, opened, pace, learned, listener)
    training = store.read_json(PLAN)

    # Audit both encoders, and measure how far clean representations have moved
    began = time.monotonic()
    command = "" if opened.encoder else hardening.command(folder, clocked=bool(training["marks"]))
    shown = public_command(shlex.split(command))
    both = None if after else {"before": start, "after": trained}
    records = [
        run_audit(
            plan,
            folder / place,
            encoders=both,
            source=opened.test or opened.data,
            training=(opened.train or opened.data) if plan.train else None,
            listener=listener,
            command=shown,
        )
        for plan, place in ((audits.plan, "audit"), (accuracy, "accuracy"))
        if plan is not None
    ]
    listener.stage("measuring the drift")
    price = drift(start, trained, held_out, hardening.device)

    # The record
    ends = after and find_weights_suffix(hardening.encoder)
    measures = [row for record in records for row in changes(record)]
    record = HardeningRecord(
        encoder=after or str(folder / ENCODER),
        file=str(folder / f"encoder{ends}") if ends else None,
        origin=hardening.encoder,
        objective=hardening.choice.method if hardening.objective_name == "auto" else hardening.objective_name,
        ball=registry.spec(hardening.ball()),
        rate=rates[0].rate,
        rates=rates,
        batchnorm=hardening.batchnorm,
        weights=share,
        steps=training["steps"],
        pace=training["marks"],
        budget=training["budget"],
        seconds=round(training["seconds"], 3),
        images=HardeningImages(
            learned=len(learned), held_out=len(held_out), data=hardening.data, test=audits.plan.data
        ),
        measures=measures,
        price=price,
        command=command,
        audit=str(folder / "audit"),
        report=str(folder / "audit" / "report.html"),
        failures=[line for record in records for line in record.failures],
        warnings=warnings + doubts.after(price, measures),
    )
    record = read_json(as_json(record), HardeningRecord)

    # The report of the audit tells of the hardening, too
    listener.stage("writing the report")
    write_record(Store(folder / "audit"), msgspec.structs.replace(records[0], hardening=record.summary))
    write_report(folder / "audit")
    record = msgspec.structs.replace(record, audit_seconds=round(time.monotonic() - began, 3))
    store.write_json(RECORD, as_json(msgspec.structs.replace(record, command=shown)))
    return Hardened(trained, record)


def _identity(hardening: Hardening, start: Encoder, held_out: ImageSet, learned: TrainingImages) -> dict[str, Any]:
    """Return all that decides the weights, but for how long the training is."""
    values = {key: value for key, value in asdict(hardening).items() if key not in ("steps", "budget", "pace")}
    images = {"learned": learned.images.fingerprint, "held_out": held_out.fingerprint}
    learned_from = {"files": hardening.method().fingerprints()}
    return public({**values, **images, **learned_from, "weights": start.refresh_fingerprint()})


def _pace(hardening: Hardening, store: Store, identity: dict[str, Any]) -> Pace:
    """Return how long to train: as the user says, if that is what the folder says."""
    length = (hardening.seconds if hardening.steps is None else None), hardening.steps, list(hardening.pace)
    plan = store.read_json(PLAN)
    if not (store.exists(ENCODER) or store.exists("checkpoint.pt")):  # what came to nothing claims no folder
        plan = {"asked": identity, **dict(zip(("budget", "steps", "marks"), length, strict=True)), "seconds": None}
        store.write_json(PLAN, plan)
    elif not isinstance(plan, dict):
        raise HoldfastError(f"the folder {str(store.folder)!r} holds a training; choose another --out")

    # At the rate that was found, if none was given; by the clock, as at first; or, once it is trained, in the steps and
    # at the pace that came of it
    if hardening.rate == plan.get("rates", [{"rate": None}])[0]["rate"]:
        identity = {**identity, "rate": plan.get("asked", {}).get("rate")}
    budget = plan.get("budget")
    by_steps = (None if plan.get("seconds") else budget), plan.get("steps"), plan.get("marks")
    lengths = [by_steps] if budget is None else [(budget, None, []), by_steps]
    if plan.get("asked") != identity or length not in lengths:
        raise HoldfastError(
            f"the folder {str(store.folder)!r} holds another hardening; choose another --out, or delete it"
        )
    return Pace(hardening.steps, length[0], hardening.pace)


def _rates(
    hardening: Hardening, store: Store, start: Encoder, learned: TrainingImages, listener: Listener
) -> list[TriedRate]:
    """Return the rates that were tried, now or in an earlier run, with what the loss became; the first is taken."""
    if hardening.rate is not None:
        return [TriedRate(rate=hardening.rate)]
    plan = store.read_json(PLAN)
    if "rates" not in plan:
        listener.stage("finding the learning rate")
        tried = losses(hardening.recipe(), start, learned) if hardening.remembers else {UNTRIED: None}
        plan["rates"] = as_json([{"rate": rate, "loss": loss} for rate, loss in reversed(tried.items())])
        store.write_json(PLAN, plan)
    return msgspec.convert(plan["rates"], list[TriedRate])


def _train_encoder(
    hardening: Hardening,
    store: Store,
    start: Encoder,
    opened: Opened,
    pace: Pace,
    learned: TrainingImages,
    listener: Listener,
) -> Encoder:
    """Return the hardened encoder: trained now, or before this run was interrupted."""
    plan, path = store.read_json(PLAN), store.folder / ENCODER
    if plan["seconds"] is None or not path.exists():
        opens = None if opened.encoder else hardening.encoder
        options = {"encoder": start, "opens": opens, "images": learned, "pace": pace, "listener": listener}
        trained = train(replace(hardening.recipe(), steps=hardening.steps), store.folder, **options)
        store.write_json(PLAN, plan | {"steps": trained.steps, "marks": pace.marks, "seconds": trained.pace.spent})
        return trained.encoder
    if opened.encoder is None:
        return open_encoder(with_weights(hardening.encoder, path))
    encoder = copy_encoder(start)
    load(encoder.module.get_submodule(encoder.root), str(path))
    return encoder
