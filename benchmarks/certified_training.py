"""What certified training proves of small networks, and what it costs, beside hardening against attacks.

    HOLDFAST_SHARED=folder python -m benchmarks.certified_training FOLDER [--only NETWORK ...]

FOLDER keeps the training of every way, and one audit of each network that compares all of them on images that none has
learned from; what is there is read, and what was interrupted goes on. It writes `docs/certified_training.json`. An hour
on one core.
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, Score, registry
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.outcome import PROVED, drift
from holdfast.workflows.harden.plan import Hardening

PAGE = Path(__file__).parent.parent / "docs/certified_training.json"
BANK = 5000
"""Labelled images that kNN learns from, at most."""


@dataclass(frozen=True)
class Network:
    """A small network that somebody trained.

    Attributes:
        name: what it is called.
        encoder: its spec; {} stands for the folder of encoders and images.
        learn: images to learn from.
        test: labelled images, none of which is among them.
        eps: radius of the ℓ∞ ball, in pixels of a [0, 1] image.
        steps: of every way.
        batch: images of a step.
        most: others from which an image is held apart in a step of certified training.
        population: how many images are told apart; a proof takes as long as it has others.
        attacked: how many of them are attacked and certified.
    """

    name: str
    encoder: str
    learn: str
    test: str
    eps: float
    steps: int
    batch: int = 64
    most: int = 8
    population: int = 100
    attacked: int = 40


NETWORKS = (
    Network(
        "CNN-B on CIFAR-10",
        "file:{}/encoders/cifar10_cnn_b_eps0.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225",
        "{}/cifar10_train25k.npz",
        "{}/cifar10_lossless300.npz",
        eps=2 / 255,
        steps=100,
        batch=32,
        most=4,
        population=60,
        attacked=12,
    ),
    Network("CNN on digits", "zoo:digits-simclr", "digits?part=train", "digits?part=heldout", eps=0.1, steps=200),
)

WAYS: dict[str, str | None] = {"against attacks": None, "CROWN-IBP": "crown_ibp", "intervals": "interval"}
"""The `--certified` of a hardening, by what pages call it."""


def recipe(network: Network, certified: str | None) -> Recipe:
    """Return how `harden` trains, with the number of others that a step can pay for."""
    asked = Hardening(
        "memory",
        "memory",
        eps=network.eps,
        steps=network.steps,
        rate=0.01,
        batch_size=network.batch,
        certified=certified,
    ).recipe()
    return replace(asked, certified=asked.certified and replace(asked.certified, most=network.most))


def study(network: Network, folder: Path, data: str) -> dict[str, Any]:
    """Return what the ways make of a network: what each took, what is broken, what is proved, and the price."""
    encoder, learn, test = (spec.replace("{}", data) for spec in (network.encoder, network.learn, network.test))
    start = open_encoder(encoder)
    images = TrainingImages(learn, geometry=start.geometry, seed=0)
    encoders: dict[str, Encoder] = {"before": start}
    facts: dict[str, dict[str, float]] = {"before": {}}
    for way, certified in WAYS.items():
        trained = train(recipe(network, certified), folder / network.name / way, encoder=start, images=images)
        encoders[way], facts[way] = trained.encoder, {"steps": trained.steps, "seconds": round(trained.pace.spent, 1)}
        print(f"{network.name}, {way}: {facts[way]}", file=sys.stderr, flush=True)
    # The price on all images held out; radii on as many as a proof has time for
    radius = registry.part("measures", "breaking_radius", certified=network.attacked)
    plan = Plan(tuple(encoders), test, (radius,), images=network.population, attacked=network.attacked)
    record = run_audit(plan, folder / network.name / "radius", encoders=encoders)
    accuracy = registry.part("measures", "probe_accuracy", probe=registry.part("probes", "knn"))
    every = {"images": None, "attacked": None}
    plan = replace(plan, measures=(accuracy,), train=learn, train_images=BANK, **every)
    priced = run_audit(plan, folder / network.name / "accuracy", encoders=encoders)
    held_out = open_images(test, geometry=start.geometry)
    rows = []
    for entry, clean in zip(record.encoders, priced.encoders, strict=True):
        radii, share = entry.measures["breaking_radius"], clean.measures["probe_accuracy"]
        rows.append(
            {
                "way": entry.name,
                **facts[entry.name],
                "proved": ends(radii.scores[PROVED]),
                "broken": ends(radii.scores[str(radii.headline)]),
                "accuracy": ends(share.scores[str(share.headline)]),
                "cosine": ends(drift(start, encoders[entry.name], held_out).cosine),
            }
        )
    about = {"learned": len(images), "held_out": priced.data.images, "attacked": record.data.attacked}
    return {"network": network.name, "eps": network.eps, **about, "record": record.seal, "rows": rows}


def ends(score: Score) -> dict[str, float | None]:
    """Return a number and its interval with four digits."""
    values = {end: getattr(score, end) for end in ("value", "low", "high")}
    return {name: None if end is None else float(f"{end:.4g}") for name, end in values.items()}


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="networks")
    options = parser.parse_args()
    data, studies = f"{os.environ['HOLDFAST_SHARED']}/data", []
    for network in NETWORKS:
        if not options.only or any(word in network.name for word in options.only):
            studies.append(study(network, options.folder, data))
            for row in studies[-1]["rows"]:
                print(*(f"{key} {value}" for key, value in row.items()), sep=", ", flush=True)
    if not options.only:
        PAGE.write_text(json.dumps(studies, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
