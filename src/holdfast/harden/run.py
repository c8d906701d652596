"""Hardening: adversarial fine-tuning of any encoder, without labels, with an audit before and after and its price."""

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast import registry
from holdfast.audit.plan import Plan
from holdfast.audit.plan_file import make_plan
from holdfast.audit.record import finite
from holdfast.audit.run import run_audit
from holdfast.core import Ball, Encoder, HoldfastError
from holdfast.data import ImageSet, open_images
from holdfast.encoders import open_encoder
from holdfast.encoders._copy import trainable, with_weights
from holdfast.errors import no_labels
from holdfast.harden.outcome import changes, drift
from holdfast.harden.plan import Hardening
from holdfast.listener import Listener, Silent
from holdfast.measures.probe_accuracy import ProbeAccuracy
from holdfast.probes.knn import Knn
from holdfast.report.html import write_report
from holdfast.spec_string import parse
from holdfast.store import Store
from holdfast.training._images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe

ENCODER, PLAN = "encoder.safetensors", "harden-plan.json"

PROBED = 6
"""Steps of a throw-away training that tell how long a step takes; the first two are not counted."""

LEAST, SHARE, MOST = 200, 0.1, 2000
"""Images held out: so many or that share, if it is more, but not beyond the last (or the profile's population)."""

BANK = 10_000
"""Images that the kNN probe compares with at most, where they are not given apart."""


def harden(asked: Hardening, folder: Path, *, listener: Listener | None = None) -> dict[str, Any]:
    """Harden an encoder; interrupted, the same call goes on and comes to the same weights.

    The folder holds `encoder.safetensors`, the hardened weights; `audit/`, one audit of both encoders on images that
    were not learned from, with its report; `harden.json`, what is returned; and what a training leaves.

    Args:
        asked: what to do.
        folder: the run folder.
        listener: told about progress.

    Returns:
        `encoder`, the spec of the hardened encoder; `steps`, and `seconds` that they took in this run; `measures`, see
        `changes`; `price`, see `drift`; `command`, to do it again; `audit` and `report`, where these lie.

    Raises:
        HoldfastError: an encoder that cannot be trained, images too few, no labels where they are needed, a budget too
            short for a step, or a folder that holds something else.
    """
    listener, start, ball = listener or Silent(), open_encoder(asked.encoder), asked.ball()
    trainable(start)  # raises now, not after the images are read
    plan, size = _plan(asked, folder, ball)
    held = open_images(plan.data, size=size, seed=asked.seed, geometry=start.geometry)
    learned = TrainingImages(asked.data, geometry=start.geometry, seed=asked.seed, device=asked.device, leave_out=held)
    probed = _with_labels(plan, asked, held, learned)
    store, whose = Store(folder), _identity(asked, start, held, learned)
    steps = _steps(asked, store, whose, start, learned)
    began = time.perf_counter()
    trained = _trained(asked.recipe(steps), folder, start, learned, listener)
    seconds = time.perf_counter() - began
    command = asked.command(folder, steps)
    records = [run_audit(plan, folder / "audit", listener=listener, command=command)]
    if probed is not None:
        records.append(run_audit(probed, folder / "accuracy", listener=listener, command=command))
    listener.stage("measuring the drift")
    price = drift(start, trained, held, asked.device)
    listener.stage("writing the report")
    found = {
        "encoder": with_weights(asked.encoder, folder / ENCODER),
        "from": asked.encoder,
        "objective": registry.part_name(asked.method()),
        "ball": registry.spec(ball),
        "steps": steps,
        "seconds": round(seconds, 3),
        "images": {"learned": len(learned), "held_out": len(held), "data": asked.data, "test": plan.data},
        "measures": [row for record in records for row in changes(record)],
        "price": {name: asdict(score) for name, score in price.items()},
        "command": command,
        "audit": str(folder / "audit"),
        "report": str(write_report(folder / "audit")),
        "failures": [line for record in records for line in record["failures"]],
    }
    found = finite(found)
    store.write_json("harden.json", found)
    return found


def _plan(asked: Hardening, folder: Path, ball: Ball) -> tuple[Plan, int]:
    """Return the audit of both encoders, on images that are not learned from, and how many of these there are."""
    data = asked.test or asked.data
    after = with_weights(asked.encoder, folder / ENCODER)
    names = [_labelled(asked.encoder, "before"), _labelled(after, "after")]
    run = {"seed": asked.seed, "device": asked.device}
    plan = make_plan(names, data, profile_name=asked.profile, norm=registry.part_name(ball), eps=ball.radius, **run)
    there = open_images(data, seed=asked.seed).available
    share = there if asked.test else min(there // 2, max(LEAST, int(SHARE * there)))
    size = min(share, max(MOST, plan.images or share))
    images = min(plan.images or size, size)
    return replace(plan, images=images, attacked=min(plan.attacked or images, images)), size


def _with_labels(plan: Plan, asked: Hardening, held: ImageSet, learned: TrainingImages) -> Plan | None:
    """Return the audit of a kNN probe's accuracy on all images held out, where labels are known."""
    if held.labels is None and (asked.train or plan.labelled()):
        raise no_labels("the accuracy before and after", str(held))
    if held.labels is None or (asked.train is None and learned.labels is None):
        return None
    apart = {"train": asked.train} if asked.train else {"train": asked.data, "train_images": BANK}
    every = {"images": len(held), "attacked": len(held)}
    return replace(plan, measures=(ProbeAccuracy(Knn()),), checks=(), spare=False, **every, **apart)


def _identity(asked: Hardening, start: Encoder, held: ImageSet, learned: TrainingImages) -> dict[str, Any]:
    """Return all that decides the weights, but for the number of steps."""
    said = {key: value for key, value in asdict(asked).items() if key not in ("steps", "budget")}
    images = {"learned": learned.images.fingerprint, "held_out": held.fingerprint}
    return {**said, **images, "weights": start.refresh_fingerprint()}


def _steps(asked: Hardening, store: Store, whose: Mapping[str, Any], start: Encoder, learned: TrainingImages) -> int:
    """Return how many steps to train: as the folder says, or the user, or as many as the budget has room for.

    Raises:
        HoldfastError: a folder of another hardening, or a budget too short for one step.
    """
    path = store.folder / PLAN
    if path.exists():
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            known = {}
        if known.get("asked") != whose or asked.steps not in (None, known["steps"]):
            raise HoldfastError(
                f"the folder {str(store.folder)!r} holds another hardening; choose another --out, or delete it"
            )
        return known["steps"]
    if any((store.folder / name).exists() for name in (ENCODER, "checkpoint.pt")):
        raise HoldfastError(f"the folder {str(store.folder)!r} holds a training; choose another --out")
    steps = asked.steps
    if steps is None:
        each = seconds_per_step(asked.recipe(PROBED), start, learned)
        steps = int(asked.budget / each)
        if steps < 1:
            raise HoldfastError(
                f"budget: expected time for one step, which takes about {each:.2g} s, got {asked.budget:g} s; give "
                "more, or a smaller --batch-size"
            )
    store.write_json(PLAN, {"asked": whose, "steps": steps})
    return steps


def seconds_per_step(recipe: Recipe, encoder: Encoder, images: TrainingImages) -> float:
    """Return how long a step of a training takes: the median of a few, of a copy that is thrown away."""
    watch = _Watch()
    with tempfile.TemporaryDirectory() as folder:
        train(recipe, Path(folder), encoder=encoder, images=images, listener=watch)
    return statistics.median(b - a for a, b in itertools.pairwise(watch.ends[2:]))


class _Watch(Silent):
    """Takes the time at the end of every step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def advance(self, passes: int) -> None:
        self.ends.append(time.perf_counter())


def _trained(recipe: Recipe, folder: Path, start: Encoder, images: TrainingImages, listener: Listener) -> Encoder:
    """Return the hardened encoder: trained now, or before this run was interrupted."""
    path = folder / ENCODER
    if path.exists():
        return open_encoder(with_weights(recipe.encoder, path))
    return train(recipe, folder, encoder=start, images=images, listener=listener).encoder


def _labelled(spec: str, label: str) -> str:
    """Return an encoder's spec with another label."""
    _, _, options = parse(spec)
    kept = {key: quote(value, safe="/:.,~-_") for key, value in options.items() if key != "label"} | {"label": label}
    return f"{spec.strip().partition('?')[0]}?{'&'.join(f'{key}={value}' for key, value in kept.items())}"
