"""Hardening: adversarial fine-tuning of any encoder, without labels, with an audit before and after and its price."""

import math
import shlex
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec
import torch

from holdfast.auditing.rounds import write_record
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, registry
from holdfast.numerics.bounds.trace import trace
from holdfast.report.html import write_report
from holdfast.runtime.distributed import leads
from holdfast.runtime.errors import BadPlace
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public, public_command
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import find_weights_suffix, open_encoder
from holdfast.sources.encoders.shared.copies import copy_encoder, with_weights
from holdfast.sources.encoders.shared.equip import load
from holdfast.storage.entry import Spec, as_json, read_json
from holdfast.storage.hardening import HardeningImages, HardeningRecord, HardeningTraining, TriedRate
from holdfast.storage.run_folder import Store
from holdfast.training.accelerator import engine
from holdfast.training.coarseness import explain
from holdfast.training.images import TrainingImages
from holdfast.training.learner import learner
from holdfast.training.loop import train
from holdfast.training.pace import Pace
from holdfast.workflows.harden import doubts
from holdfast.workflows.harden.audits import Audits, Opened
from holdfast.workflows.harden.keeper import Keeper
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
) -> Hardened | None:
    """Harden an encoder; interrupted, the same call goes on, in steps to the same weights.

    Of several processes, which `torchrun` starts, all train and the first one does the rest; the others return None.

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
    looked_at = audits.images_to_look_at(opened.data or hardening.data, held_out, geometry)
    learned = TrainingImages(
        opened.data or hardening.data,
        geometry=geometry,
        seed=hardening.seed,
        device=hardening.device,
        leave_out=(held_out, looked_at),
    )
    accuracy = audits.with_labels(held_out, learned.labels is not None)

    if hardening.certified is not None:  # raises before the search for a rate
        trace(start, tuple(learned.batch(torch.arange(1)).shape[1:]))

    # Train, unless an earlier run has
    store, together = Store(folder), engine(hardening.recipe(), (), folder)
    with together.main_process_first():  # it writes what the others read
        pace = _pace(hardening, store, _identity(hardening, start, held_out, learned))
        training = _read(store)
    assert training is not None
    warnings = doubts.before(start)
    for line in warnings:
        listener.stage(line)
    rates = _rates(hardening, store, training, start, learned, listener)
    hardening = replace(hardening, rate=rates[0].rate)
    keeper = Keeper(
        store,
        start,
        looked_at,
        hardening.ball(),
        patience=hardening.patience,
        last=hardening.certified is not None,
        device=hardening.device,
    )
    trained = _train_encoder(hardening, store, start, opened, pace, learned, keeper, listener)
    # The others have trained, and are done
    if not leads():
        return None
    training = _read(store)
    assert training is not None
    assert training.seconds is not None

    # Audit both encoders, and measure how far clean representations have moved
    began = time.monotonic()
    command = "" if opened.encoder else hardening.command(folder, clocked=bool(training.marks))
    shown = public_command(shlex.split(command))
    both = None if after else {"before": start, "after": trained}
    asked = {place: plan for plan, place in ((audits.plan, "audit"), (accuracy, "accuracy")) if plan is not None}
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
        for place, plan in asked.items()
    ]
    listener.stage("measuring the drift")
    price = drift(start, trained, held_out, hardening.device)

    # The record
    ends = after and find_weights_suffix(hardening.encoder)
    audited = zip(asked, records, strict=True)
    measures = [row for place, record in audited for row in changes(record, Store(folder / place))]
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
        attack=None if hardening.certified else registry.spec(hardening.attack_of_training()),
        looks=keeper.looks,
        kept=keeper.best.step,
        comparisons=training.comparisons,
        steps=training.made,
        pace=training.marks,
        budget=training.budget,
        seconds=round(training.seconds, 3),
        images=HardeningImages(
            learned=len(learned),
            looked_at=len(looked_at),
            held_out=len(held_out),
            data=hardening.data,
            test=audits.plan.data,
        ),
        measures=measures,
        price=price,
        command=command,
        audit=str(folder / "audit"),
        report=str(folder / "audit" / "report.html"),
        failures=[line for record in records for line in record.failures],
        warnings=[
            *warnings,
            *explain(training.comparisons),
            *doubts.of_looks(keeper.looks, keeper.best.step),
            *doubts.after(price, measures),
        ],
    )
    record = read_json(as_json(record), HardeningRecord)

    # The report of the audit tells of the hardening, too
    listener.stage("writing the report")
    write_record(Store(folder / "audit"), msgspec.structs.replace(records[0], hardening=record.summary))
    write_report(folder / "audit")
    record = msgspec.structs.replace(record, audit_seconds=round(time.monotonic() - began, 3))
    store.write_json(RECORD, as_json(msgspec.structs.replace(record, command=shown)))
    return Hardened(trained, record)


def _identity(hardening: Hardening, start: Encoder, held_out: ImageSet, learned: TrainingImages) -> Spec:
    """Return all that decides the weights, but for how long the training is."""
    values = {key: value for key, value in asdict(hardening).items() if key not in ("steps", "budget", "pace")}
    images = {"learned": learned.images.fingerprint, "held_out": held_out.fingerprint}
    learned_from = {"files": hardening.method().fingerprints()}
    return public({**values, **images, **learned_from, "weights": start.refresh_fingerprint()})


def _read(store: Store) -> HardeningTraining | None:
    """Return what the folder knows of a training; None where it knows nothing."""
    try:
        return read_json(store.read_json(PLAN), HardeningTraining)
    except ValueError:
        return None


def _write(store: Store, training: HardeningTraining) -> None:
    """Write what is known of the training, in the first of several processes."""
    if leads():
        store.write_json(PLAN, as_json(training))


def _pace(hardening: Hardening, store: Store, identity: Spec) -> Pace:
    """Return how long to train: as the user says, if that is what the folder says."""
    budget, steps, marks = hardening.seconds if hardening.steps is None else None, hardening.steps, list(hardening.pace)
    training, folder = _read(store), str(store.folder)
    if not (store.exists(ENCODER) or store.exists("checkpoint.pt")):  # what came to nothing claims no folder
        training = HardeningTraining(asked=identity, budget=budget, steps=steps, marks=marks)
        _write(store, training)
    elif training is None:
        raise BadPlace(f"the folder {folder!r} holds a training; choose another --out")

    # At the rate that was found, if none was given; by the clock, as at first; or, once it is trained, in the steps and
    # at the pace that came of it
    if training.rates and hardening.rate == training.rates[0].rate:
        identity = {**identity, "rate": training.asked.get("rate")}
    by_steps = (None if training.seconds else training.budget), training.steps, training.marks
    lengths = [by_steps] if training.budget is None else [(training.budget, None, []), by_steps]
    if training.asked != identity or (budget, steps, marks) not in lengths:
        raise BadPlace(f"the folder {folder!r} holds another hardening; choose another --out, or delete it")
    return Pace(steps, budget, hardening.pace)


def _rates(
    hardening: Hardening,
    store: Store,
    training: HardeningTraining,
    start: Encoder,
    learned: TrainingImages,
    listener: Listener,
) -> list[TriedRate]:
    """Return the rates that were tried, now or in an earlier run, with what the loss became; the first is taken."""
    if hardening.rate is not None:
        return [TriedRate(rate=hardening.rate)]
    if training.rates:
        return training.rates
    listener.stage("finding the learning rate")
    # Against attacks in any case: a bound is not there from the first step on
    attacked = replace(hardening, certified=None).recipe()
    tried = losses(attacked, start, learned) if hardening.remembers else {UNTRIED: None}
    rates = [TriedRate(rate=rate, loss=_finite(loss)) for rate, loss in reversed(tried.items())]
    _write(store, msgspec.structs.replace(training, rates=rates))
    return rates


def _train_encoder(
    hardening: Hardening,
    store: Store,
    start: Encoder,
    opened: Opened,
    pace: Pace,
    learned: TrainingImages,
    keeper: Keeper,
    listener: Listener,
) -> Encoder:
    """Return the hardened encoder that the keeper chose: trained now, or before this run was interrupted."""
    plan, path = _read(store), store.folder / ENCODER
    assert plan is not None
    if plan.seconds is None or not path.exists():
        opens = None if opened.encoder else hardening.encoder
        options = {"encoder": start, "opens": opens, "images": learned, "pace": pace, "listener": listener}
        options |= {"keeper": keeper, "track": hardening.track}
        trained = train(replace(hardening.recipe(), steps=hardening.steps), store.folder, **options)
        came = HardeningTraining(
            asked=plan.asked,
            budget=plan.budget,
            # what the clock decided takes the place of the budget; what a keeper decided, it decides again
            steps=plan.steps if pace.budget is None else trained.steps,
            marks=pace.marks,
            seconds=trained.pace.spent,
            made=trained.steps,
            rates=plan.rates,
            comparisons=trained.comparisons,
        )
        _write(store, came)
        return trained.encoder
    if opened.encoder is None:
        return open_encoder(with_weights(hardening.encoder, path))
    encoder = copy_encoder(start)
    load(encoder.module.get_submodule(encoder.root), str(path))
    return encoder


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold; None beyond all numbers."""
    return None if value is None or not math.isfinite(value) else value
