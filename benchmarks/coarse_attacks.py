"""Why a longer hardening broke earlier: the same training under coarse and fine attacks, looked at along the way.

    HOLDFAST_SHARED=folder python -m benchmarks.coarse_attacks FOLDER [--only NAME ...] [--page]

FOLDER keeps every training; what is there is read, and one that was interrupted goes on. A training of the ResNet takes
a quarter of an hour on one core, with ten steps of the attack half an hour. `--page` writes `docs/coarse_attacks.json`
from what is there.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.hardening import NETWORKS, audit, headlines
from holdfast.core import Encoder, registry
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.copies import copy_encoder
from holdfast.sources.encoders.shared.equip import load
from holdfast.storage.run_folder import Store
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe import Recipe
from holdfast.workflows.harden.outcome import drift
from holdfast.workflows.harden.plan import Hardening
from holdfast.workflows.monitor.snapshot import look

PAGE = Path(__file__).parent.parent / "docs/coarse_attacks.json"
STEPS, EVERY, EPS, SEEDS = 600, 50, 8 / 255, (0, 1, 2)
ATTACKED, POPULATION = 60, 300

NORM = "mean=0.485,0.456,0.406&std=0.229,0.224,0.225"
ENCODERS = {
    "ResNet-20": ("file:{}/encoders/cifar10_resnet20_supervised.safetensors?" + NORM, 0.1),
    "CNN-B": ("file:{}/encoders/cifar10_cnn_b_eps0.safetensors?mean=0.485,0.456,0.406&std=0.225,0.225,0.225", 0.01),
}
"""Encoders, and the rate that `harden` finds for each."""


@dataclass(frozen=True)
class Setting:
    """A hardening of a network.

    Attributes:
        network: a name of `ENCODERS`.
        name: what is different.
        steps: of the attack.
        size: of a step, in units of ε.
        settings: fields of `Hardening` that are not as they come.
        seeds: the seeds that it is done with.
    """

    network: str
    name: str
    steps: int = 3
    size: float = 2.5 / 3
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = SEEDS

    def recipe(self, seed: int) -> Recipe:
        """Return the training; its attack is compared with a finer one and stays as it is."""
        rate = self.settings.get("rate", ENCODERS[self.network][1])
        asked: dict[str, Any] = {"eps": EPS, "steps": STEPS, "seed": seed, **self.settings, "rate": rate}
        recipe = Hardening("memory", "memory", **asked).recipe()
        assert recipe.adversary is not None
        attack = registry.part("attacks", "pgd", steps=self.steps, step_size=self.size * EPS, keep="last")
        return replace(recipe, adversary=replace(recipe.adversary, attack=attack, check_every=EVERY, mend=False))


RESNET, CNN = ENCODERS
SETTINGS = (
    Setting(RESNET, "3 steps of .83 ε"),
    Setting(RESNET, "3 steps of .5 ε", size=0.5),
    Setting(RESNET, "10 steps of .25 ε", 10, 0.25),
    Setting(RESNET, "3 steps of .83 ε, rate .03", settings={"rate": 0.03}),
    Setting(RESNET, "3 steps of .83 ε, BatchNorm frozen", settings={"batchnorm": "frozen"}),
    Setting(RESNET, "3 steps of .83 ε, BatchNorm split", settings={"batchnorm": "split"}),
    Setting(CNN, "3 steps of .83 ε"),
    Setting(CNN, "3 steps of .5 ε", size=0.5),
    Setting(CNN, "10 steps of .25 ε", 10, 0.25),
)


class Looks:
    """Looks at an encoder along its training: how far images may move, and how near it is to what it was."""

    every = EVERY

    def __init__(self, start: Encoder, images: ImageSet):
        self._start, self._images = start, images

    def __call__(self, encoder: Encoder, step: int) -> dict[str, float]:
        """Return the median breaking radius with its interval, in /255, and the mean cosine to before."""
        measure = registry.part("measures", "breaking_radius", certified=0, steps=50)
        seen = look(encoder, self._images, (measure,), attacked=ATTACKED).values
        ends = {"": "radius", ".low": "low", ".high": "high"}
        radii = {name: 255 * seen[f"breaking_radius{end}"] for end, name in ends.items()}
        return radii | {"cosine": float(drift(self._start, encoder, self._images).cosine.value or 0)}


def trainings(folder: Path, data: str, only: list[str] | None, make: bool) -> Iterator[dict[str, Any]]:
    """Yield what became of every training: made where it is asked for, read where it is there."""
    opened: dict[str, tuple[Encoder, TrainingImages, ImageSet]] = {}
    for seed in SEEDS:  # one of each first
        for setting in SETTINGS:
            title = f"{setting.network}, {setting.name}"
            if seed not in setting.seeds or (only and not any(word in title for word in only)):
                continue
            place = folder / title.replace(" ", "_").replace(",", "") / str(seed)
            kept = place / "looks.json"
            if not kept.exists() and make:
                if setting.network not in opened:
                    start = open_encoder(ENCODERS[setting.network][0].replace("{}", data))
                    images = TrainingImages(f"{data}/cifar10_train25k.npz", geometry=start.geometry, seed=0)
                    tests = open_images(f"{data}/cifar10_lossless300.npz", images=POPULATION, geometry=start.geometry)
                    opened[setting.network] = start, images, tests
                start, images, tests = opened[setting.network]
                looks = (Looks(start, tests),)
                rows = train(setting.recipe(seed), place, encoder=start, images=images, monitors=looks).rows
                keys = ("step", "attacked", "clean", "coarseness", "radius", "low", "high", "cosine")
                seen = [{key: round(row[key], 4) for key in keys if key in row} for row in rows if "radius" in row]
                trained = copy_encoder(start)
                load(trained.module.get_submodule(trained.root), str(place / "encoder.safetensors"))
                facts = {"looks": seen}
                if setting.network == RESNET:  # the one whose classifier is known
                    record = audit(
                        NETWORKS[0], {"end": trained}, lambda text: text.replace("{}", data), place / "audit"
                    )
                    facts |= {"end": headlines(record.encoders[0])}
                Store(place).write_json(kept.name, facts)
                print(title, seed, seen[-1], file=sys.stderr, flush=True)
            if kept.exists():
                facts = json.loads(kept.read_text(encoding="utf-8"))
                yield {"network": setting.network, "setting": setting.name, "seed": seed, **facts}


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", help="networks and settings")
    parser.add_argument("--page", action="store_true", help="write what is there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data = f"{os.environ['HOLDFAST_SHARED']}/data"
    done = list(trainings(options.folder, data, options.only, not options.page))
    if options.page:
        PAGE.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
