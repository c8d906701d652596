"""How far hardening gets real networks at equal encoder passes: Holdfast's settings, and a hand-written FARE loop.

    HOLDFAST_SHARED=folder python -m benchmarks.hardening FOLDER [--only NETWORK ...] [--ways WAY ...]

FOLDER keeps the weights of every way, and one audit of each network that compares all of them on images that none has
learned from; what is there is read. It writes `docs/hardening.json`. Hours on one core for all.
"""

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import Encoder, Measure, Rng, Score, registry
from holdfast.runtime.torchvision_guard import guard_torchvision
from holdfast.sources.data import open_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import copy_encoder, save, trainable
from holdfast.sources.encoders.shared.equip import load
from holdfast.storage.record import EncoderEntry, Record
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.optimiser import Optimiser
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.outcome import drift
from holdfast.workflows.harden.plan import VIEWS, Hardening
from holdfast.workflows.harden.rate import STEPS, UNTRIED, losses

PAGE = Path(__file__).parent.parent / "docs/hardening.json"
FARE_STEPS, FARE_WARMUP, FARE_DECAY = 10, 0.07, 1e-4


@dataclass(frozen=True)
class Network:
    """A network that somebody trained, with the head that it is used with.

    Attributes:
        name: what it is called.
        encoder: its spec; {} stands for the folder of encoders and images.
        head: the probe `trained`, likewise.
        learn: images to learn from.
        test: labelled images, none of which is among them.
        eps: radius of the ℓ∞ ball, in pixels of a [0, 1] image.
        steps: of `harden` as it comes; every other way has as many passes.
        attacked: how many images of `test` are attacked.
    """

    name: str
    encoder: str
    head: Mapping[str, str]
    learn: str
    test: str
    eps: float
    steps: int
    attacked: int = 100


@dataclass(frozen=True)
class Way:
    """A way to harden: Holdfast's with some settings, or a hand-written loop.

    Attributes:
        name: what it is called.
        settings: fields of `Hardening` that are not as they come.
        fare: rate of the hand-written loop; None: this is no such loop.
        share: of the passes that the others have.
        only: the network that it is tried on; None: all.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    fare: float | None = None
    share: float = 1.0
    only: str | None = None


NETWORKS = (
    Network(
        "ResNet-20 on CIFAR-10",
        "file:{}/encoders/cifar10_resnet20_supervised.safetensors?mean=0.485,0.456,0.406&std=0.229,0.224,0.225",
        {"path": "{}/encoders/cifar10_resnet20_supervised.safetensors", "layer": "linear"},
        "{}/cifar10_train25k.npz",
        "{}/cifar10_lossless300.npz",
        eps=8 / 255,
        steps=200,
    ),
    Network(
        "MobileNetV1 at 128 pixels",
        "onnx:{}/real/imagenet_mobilenet_v1_025.onnx?resize=146&crop=128&interpolation=bilinear",
        {"path": "{}/real/imagenet_mobilenet_v1_025_head.safetensors"},
        "list:FOLDER/learn.txt?root={}/photos",
        "list:FOLDER/test.txt?root={}/photos",
        eps=4 / 255,
        steps=160,
    ),
)

RESNET = NETWORKS[0].name
WAYS = (
    Way("harden"),
    Way("FARE, rate 1e-4", fare=1e-4),
    Way("FARE, rate 1e-3", fare=1e-3),
    Way("BatchNorm split", {"batchnorm": "split"}, only=RESNET),
    Way("simclr", {"objective": "simclr"}, only=RESNET),
    Way("a quarter of the passes", share=0.25),
    Way("three times the passes", share=3.0),
)


class Counting(nn.Module):
    """A network that counts the images that pass through it, forward and backward; its copies count with it."""

    def __init__(self, network: nn.Module, passes: list[int] | None = None):
        super().__init__()
        self.network, self.passes = network, [0] if passes is None else passes

    def __deepcopy__(self, memo: dict[int, Any]) -> "Counting":
        return Counting(copy.deepcopy(self.network, memo), self.passes)

    def forward(self, x: Tensor) -> Tensor:
        """Pass images through the network."""
        out = self.network(x)
        self.passes[0] += len(x)
        if out.requires_grad:
            out.register_hook(lambda gradient: self._add(len(gradient)))
        return out

    def _add(self, images: int) -> None:
        self.passes[0] += images


def harden(way: Way, network: Network, start: Encoder, images: TrainingImages, steps: int, folder: Path) -> Encoder:
    """Return the encoder as Holdfast hardens it, in so many steps; those that find the rate are among them."""
    recipe = _recipe(way, network, steps)
    rate = way.settings.get("rate", UNTRIED if "objective" in way.settings else None)
    if rate is None:
        tried = losses(recipe, start, images)
        rate, steps = list(tried)[-1], steps - STEPS * len(tried)
        print(f"{network.name}, {way.name}: losses {tried}", file=sys.stderr, flush=True)
    recipe = replace(recipe, steps=steps, optimiser=replace(recipe.optimiser, rate=rate))
    return train(recipe, folder, encoder=start, images=images).encoder


def _recipe(way: Way, network: Network, steps: int) -> Recipe:
    return Hardening("memory", "memory", eps=network.eps, steps=steps, **way.settings).recipe()


def fare(way: Way, network: Network, start: Encoder, images: TrainingImages, steps: int, folder: Path) -> Encoder:
    """Return argmin_f E max_{x'} ‖f(x') - f_0(x)‖², by hand: 10 steps of PGD inside, AdamW outside.

    Source: Schlarmann et al. (2024), "Robust CLIP: unsupervised adversarial fine-tuning of vision embeddings". The rate
    rises for 7 % of the steps and falls along a cosine, weight decay is 1e-4, as there; BatchNorm is in eval mode.
    """
    assert way.fare is not None
    student = trainable(start)
    student.module.eval()
    optimiser = torch.optim.AdamW(student.module.parameters(), way.fare, weight_decay=FARE_DECAY)
    schedule = Optimiser("adamw", way.fare, warmup=FARE_WARMUP)
    views, generator = VIEWS["light"], torch.Generator().manual_seed(0)
    for step in range(steps):
        places = torch.randint(len(images), (64,), generator=generator)
        x = views(images.batch(places), Rng(0, ("fare", str(step)), ids=tuple(images.ids[place] for place in places)))
        with torch.no_grad():
            target = start(x)
        moved = x + (2 * torch.rand(x.shape, generator=generator) - 1) * network.eps
        for _ in range(FARE_STEPS):
            moved = moved.clamp(0, 1).detach().requires_grad_()
            (gradient,) = torch.autograd.grad((student(moved) - target).square().sum(), moved)
            moved = moved + 2.5 * network.eps / FARE_STEPS * gradient.sign()
            moved = x + (moved - x).clamp(-network.eps, network.eps)
        loss = (student(moved.clamp(0, 1).detach()) - target).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate_at(step / steps)
        optimiser.step()
    return copy_encoder(start, student.module.requires_grad_(False))


def passes_of_a_step(way: Way, network: Network, start: Encoder, images: TrainingImages) -> float:
    """Return how many times an image of a batch passes through the network in a step, forward or backward."""
    counts = []
    for steps in (1, 2):
        counting = copy_encoder(start, Counting(copy.deepcopy(start.module)))
        with TemporaryDirectory() as folder:
            if way.fare is None:
                train(_recipe(way, network, steps), Path(folder), encoder=counting, images=images)
            else:
                fare(way, network, counting, images, steps, Path(folder))
        assert isinstance(counting.module, Counting)
        counts.append(counting.module.passes[0])
    return (counts[1] - counts[0]) / 64


def hardened(way: Way, network: Network, start: Encoder, images: TrainingImages, folder: Path) -> tuple[Encoder, Any]:
    """Return the encoder that a way comes to, and what it took; made where the folder has none."""
    folder.mkdir(parents=True, exist_ok=True)
    weights, facts = folder / "weights.safetensors", folder / "facts.json"
    if not facts.exists():
        each, all_of = (passes_of_a_step(w, network, start, images) for w in (way, WAYS[0]))
        steps = round(way.share * network.steps * all_of / each)
        print(f"{network.name}, {way.name}: {steps} steps of {each:g} passes", file=sys.stderr, flush=True)
        began = time.process_time()
        encoder = (harden if way.fare is None else fare)(way, network, start, images, steps, folder / "training")
        save(encoder, weights, {})
        took = {"steps": steps, "passes": each, "seconds": round(time.process_time() - began, 1)}
        facts.write_text(json.dumps(took), encoding="utf-8")
    opened = copy_encoder(start)
    load(opened.module.get_submodule(opened.root), str(weights))
    return opened, json.loads(facts.read_text(encoding="utf-8"))


def asked(network: Network, head: Mapping[str, str]) -> tuple[Measure, ...]:
    """Return the measures: without labels, and of the head that is in use."""
    ball, probe = registry.part("threats", "linf", radius=network.eps), registry.part("probes", "trained", **head)
    attacks, objectives = [registry.part("attacks", "pgd", steps=20)], [registry.part("objectives", "cross_entropy")]
    return (
        registry.part("measures", "probe_accuracy", probe=probe),
        registry.part("measures", "robust_accuracy", probe=probe, ball=ball, attacks=attacks, objectives=objectives),
        registry.part("measures", "breaking_radius", certified=0),
        registry.part("measures", "universal_quantile", ball=ball),
        registry.part("measures", "nearest_neighbour_accuracy", ball=ball),
    )


def audit(network: Network, encoders: Mapping[str, Encoder], filled: Callable[[str], str], folder: Path) -> Record:
    """Return what an audit of encoders of a network found; `filled` puts folders in the place of {}."""
    head = {key: filled(value) for key, value in network.head.items()}
    plan = Plan(tuple(encoders), filled(network.test), asked(network, head), attacked=network.attacked)
    return run_audit(plan, folder, encoders=dict(encoders))


def headlines(entry: EncoderEntry) -> dict[str, dict[str, float | None]]:
    """Return the headline of each measure of an encoder with its interval."""
    return {name: _ends(measure.scores[str(measure.headline)]) for name, measure in entry.measures.items()}


def study(network: Network, ways: list[Way], folder: Path, data: str) -> dict[str, Any]:
    """Return what the ways make of a network: what each took, and every measure beside that of the network itself."""
    folder.mkdir(parents=True, exist_ok=True)

    def filled(text: str) -> str:
        return text.replace("FOLDER", str(folder)).replace("{}", data)

    if "FOLDER" in network.learn:
        split(Path(data) / "photos", folder)
    start = open_encoder(filled(network.encoder))
    images = TrainingImages(filled(network.learn), geometry=start.geometry, seed=0)
    encoders, facts = {"before": start}, {}
    for way in ways:
        encoders[way.name], facts[way.name] = hardened(way, network, start, images, folder / way.name)
    record = audit(network, encoders, filled, folder / "audit" / str(len(ways)))
    test = open_images(filled(network.test), geometry=start.geometry)
    rows = []
    for entry in record.encoders:
        moved = drift(start, encoders[entry.name], test).cosine
        rows.append({"way": entry.name, **facts.get(entry.name, {}), **headlines(entry), "cosine": _ends(moved)})
    about = {"learned": len(images), "held_out": record.data.images, "attacked": record.data.attacked}
    return {"network": network.name, "eps": network.eps, **about, "record": record.seal, "rows": rows}


def _ends(score: Score) -> dict[str, float | None]:
    ends = {end: getattr(score, end) for end in ("value", "low", "high")}
    return {name: None if end is None else float(f"{end:.4g}") for name, end in ends.items()}


def split(photos: Path, folder: Path) -> None:
    """List photos with their classes, whose names they bear: three of five to learn from, two held out."""
    guard_torchvision()
    from torchvision.models import ResNet18_Weights

    names = ResNet18_Weights.IMAGENET1K_V1.meta["categories"]
    numbers = {name.replace(" ", "_"): number for number, name in enumerate(names)}
    files = sorted(photo.name for photo in photos.iterdir())
    for list_name, places in (("learn", (0, 2, 4)), ("test", (1, 3))):
        rows = [f"{name} {numbers[Path(name).stem]}\n" for at, name in enumerate(files) if at % 5 in places]
        (folder / f"{list_name}.txt").write_text("".join(rows), encoding="utf-8")


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="networks")
    parser.add_argument("--ways", nargs="*", help="ways to harden")
    options = parser.parse_args()
    data, studies = f"{os.environ['HOLDFAST_SHARED']}/data", []
    for network in NETWORKS:
        if options.only and not any(word in network.name for word in options.only):
            continue
        ways = [w for w in WAYS if w.only in (None, network.name) and (not options.ways or w.name in options.ways)]
        studies.append(study(network, ways, options.folder / network.name, data))
        for row in studies[-1]["rows"]:
            print(*(f"{key} {value}" for key, value in row.items()), sep=", ")
    if not (options.only or options.ways):
        PAGE.write_text(json.dumps(studies, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
