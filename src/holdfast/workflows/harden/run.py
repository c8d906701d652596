"""Hardening: adversarial fine-tuning of any encoder, without labels, with an audit before and after and its price."""

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.auditing.record import finite
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, HoldfastError, registry
from holdfast.report.html import write_report
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import copied, trainable, with_weights
from holdfast.sources.encoders.shared.weights import load
from holdfast.storage.record_file import RECORD as RECORD_FILE
from holdfast.storage.record_file import sealed
from holdfast.storage.run_folder import Store
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.pace import Pace
from holdfast.workflows.harden import doubts
from holdfast.workflows.harden.audits import Audits, Opened
from holdfast.workflows.harden.outcome import changes, drift
from holdfast.workflows.harden.plan import RECORD, Hardening

ENCODER, PLAN = "encoder.safetensors", "harden-plan.json"


@dataclass(frozen=True)
class Hardened:
    """What came of a hardening.

    Attributes:
        encoder: the hardened encoder, frozen.
        record: as `harden.json` has it.
    """

    encoder: Encoder
    record: dict[str, Any]


def harden(
    asked: Hardening, folder: Path, *, opened: Opened | None = None, listener: Listener | None = None
) -> Hardened:
    """Harden an encoder; interrupted, the same call goes on, in steps to the same weights.

    The folder holds `encoder.safetensors`, the hardened weights; `audit/`, one audit of both encoders on images that
    were not learned from, with its report; `accuracy/`, that of classifiers of them, where there are labels;
    `harden.json`, the record; and what a training leaves.

    The record: `encoder`, the spec of the hardened encoder; `steps`; `pace`, see `Pace`; `budget` and `seconds`, asked
    for and taken, and those of the audits, all of this run; `measures`, see `changes`; `price`, see `drift`;
    `warnings`; `command`, to do it again; `audit` and `report`, where these lie; `failures`.

    Args:
        asked: what to do.
        folder: the run folder.
        opened: what is open already.
        listener: told about progress.

    Raises:
        HoldfastError: an encoder that cannot be trained, images too few, no labels where they are needed, a budget too
            short for several steps, or a folder that holds something else.
    """
    opened, listener = opened or Opened(), listener or Silent()
    start = opened.encoder or open_encoder(asked.encoder)
    trainable(start)  # raises now, not after the images are read
    after = None if opened.encoder else with_weights(asked.encoder, folder / ENCODER)
    audits = Audits.of(asked, after, opened)
    held = open_images(audits.images, size=audits.size, seed=asked.seed, geometry=start.geometry)
    learned = TrainingImages(
        opened.data or asked.data, geometry=start.geometry, seed=asked.seed, device=asked.device, leave_out=held
    )
    accuracy = audits.with_labels(held, learned.labels is not None)
    store, whose = Store(folder), _identity(asked, start, held, learned)
    pace = _pace(asked, store, whose)
    unlearned = doubts.before(start)
    for line in unlearned:
        listener.stage(line)
    trained = _trained(asked, store, start, opened, pace, learned, listener)
    done = store.read_json(PLAN)
    clocked, began = bool(done["marks"]), time.monotonic()
    command = "" if opened.encoder else asked.command(folder, clocked)
    both = None if after else {"before": start, "after": trained}
    sources = {"source": opened.test or opened.data, "training": opened.train or opened.data}
    records = []
    for plan, place in ((audits.plan, "audit"), (accuracy, "accuracy")):
        if plan is not None:
            training = sources["training"] if plan.train else None
            given = {"encoders": both, "source": sources["source"], "training": training}
            records.append(run_audit(plan, folder / place, listener=listener, command=command, **given))
    listener.stage("measuring the drift")
    price = drift(start, trained, held, asked.device)
    measures = [row for record in records for row in changes(record)]
    found = {
        "encoder": after or str(folder / ENCODER),
        "from": asked.encoder,
        "objective": registry.part_name(asked.method()),
        "ball": registry.spec(asked.ball()),
        "rate": asked.rate,
        "batchnorm": asked.batchnorm,
        "steps": done["steps"],
        "pace": done["marks"],
        "budget": done["budget"],
        "seconds": round(done["seconds"], 3),
        "images": {"learned": len(learned), "held_out": len(held), "data": asked.data, "test": audits.plan.data},
        "measures": measures,
        "price": {name: asdict(score) for name, score in price.items()},
        "command": command,
        "audit": str(folder / "audit"),
        "report": str(folder / "audit" / "report.html"),
        "failures": [line for record in records for line in record["failures"]],
    }
    found["warnings"] = unlearned + doubts.after(found)
    found = finite(found)
    listener.stage("writing the report")
    told = {key: found[key] for key in ("steps", "seconds", "budget", "price", "warnings")}
    told["measures"] = [row for row in found["measures"] if row["needs_labels"]]
    Store(folder / "audit").write_json(RECORD_FILE, sealed(records[0] | {"hardening": told}))
    write_report(folder / "audit")
    found["audit_seconds"] = round(time.monotonic() - began, 3)
    store.write_json(RECORD, found)
    return Hardened(trained, found)


def _identity(asked: Hardening, start: Encoder, held: ImageSet, learned: TrainingImages) -> dict[str, Any]:
    """Return all that decides the weights, but for how long the training is."""
    said = {key: value for key, value in asdict(asked).items() if key not in ("steps", "budget", "pace")}
    images = {"learned": learned.images.fingerprint, "held_out": held.fingerprint}
    return public({**said, **images, "weights": start.refresh_fingerprint()})


def _pace(asked: Hardening, store: Store, whose: dict[str, Any]) -> Pace:
    """Return how long to train: as the user says, if that is what the folder says.

    Raises:
        HoldfastError: a folder of another hardening.
    """
    budget = asked.budget if asked.steps is None else None
    mine = {"asked": whose, "budget": budget, "steps": asked.steps, "marks": list(asked.pace), "seconds": None}
    trained = store.exists(ENCODER) or store.exists("checkpoint.pt")
    known = store.read_json(PLAN)
    if trained and not isinstance(known, dict):
        raise HoldfastError(f"the folder {str(store.folder)!r} holds a training; choose another --out")
    if not trained:  # what came to nothing claims no folder
        store.write_json(PLAN, mine)
        known = mine
    first = known.get("budget"), None, []  # as it was asked for at first; or as what came of it says
    last = (None if known.get("seconds") else first[0]), known.get("steps"), known.get("marks")
    begun = first if first[0] is not None else last
    if known.get("asked") != whose or (budget, asked.steps, list(asked.pace)) not in (begun, last):
        raise HoldfastError(
            f"the folder {str(store.folder)!r} holds another hardening; choose another --out, or delete it"
        )
    return Pace(asked.steps, budget, asked.pace)


def _trained(
    asked: Hardening,
    store: Store,
    start: Encoder,
    opened: Opened,
    pace: Pace,
    learned: TrainingImages,
    listener: Listener,
) -> Encoder:
    """Return the hardened encoder: trained now, or before this run was interrupted."""
    known, path = store.read_json(PLAN), store.folder / ENCODER
    if known["seconds"] is None or not path.exists():
        opens = None if opened.encoder else asked.encoder
        how = {"encoder": start, "opens": opens, "images": learned, "pace": pace, "listener": listener}
        trained = train(replace(asked.recipe(), steps=asked.steps), store.folder, **how)
        store.write_json(PLAN, known | {"steps": trained.steps, "marks": pace.marks, "seconds": trained.pace.spent})
        return trained.encoder
    if opened.encoder is None:
        return open_encoder(with_weights(asked.encoder, path))
    encoder = copied(start)
    load(encoder.module.get_submodule(encoder.root), str(path))
    return encoder
