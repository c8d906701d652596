"""Training on the device: its losses beside the CPU's, and a step beside one of a bare loop."""

import math
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.gpu.device import Device, spread
from benchmarks.gpu.networks import RESNET18, Network
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from benchmarks.training_step import INNER, SIZE, bare_loop, our_loop
from holdfast.parts.attacks.pgd import Pgd
from holdfast.sources.data.arrays import Arrays
from holdfast.training.adversary import Adversary
from holdfast.training.images import TrainingImages
from holdfast.training.loop import train
from holdfast.training.recipe_file import make_recipe

LIMIT = 0.05
"""Most by which the loss after some steps may differ from the CPU's, as a share of it."""

DIGITS_CNN = Network("CNN of digits", "zoo:digits_cnn", (1, 8, 8))
NEEDS = ("accelerate", "lightly")
ADVERSARIES: dict[str, dict[str, Any]] = {"plain": {}, "against an adversary": {"adversary": {"weight": 1.0}}}


def steps(device: Device) -> Iterator[Task]:
    """Yield a task for a step of each kind, timed."""
    for name in reversed(ADVERSARIES):
        network = RESNET18 if device.is_gpu else DIGITS_CNN
        work = partial(_timed, device, network, bool(ADVERSARIES[name]))
        yield Task("training", f"SimCLR, {network.title}, {name}: step", work, 60.0, NEEDS)


def losses(device: Device) -> Iterator[Task]:
    """Yield a task for a training of each kind, compared with the CPU's."""
    for name, table in ADVERSARIES.items():
        yield Task("training", f"SimCLR, digits, {name}: loss", partial(_compared, device, table), 60.0, NEEDS)


def _forget_device() -> None:
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(True)  # which keeps the first device of a process


def _compared(device: Device, table: dict[str, Any]) -> Finding:
    count = 10 if device.is_gpu else 3
    recipe = {"encoder": "zoo:digits_cnn", "data": "digits?part=train", "steps": count, "batch_size": 64}
    ends = []
    for place in ("cuda" if device.is_gpu else "cpu", "cpu"):
        _forget_device()
        with tempfile.TemporaryDirectory() as folder:
            made = make_recipe({**recipe, "method": {"name": "simclr"}, "device": place, **table})
            ends.append(train(made, Path(folder) / "run").rows[-1]["loss"])
    apart = abs(ends[0] - ends[1]) / abs(ends[1]) if math.isfinite(ends[0]) else math.inf
    return Finding(f"after {count} steps apart {apart:.2g}", f"≤ {LIMIT}", apart <= LIMIT, {"apart": apart})


def _timed(device: Device, network: Network, attacked: bool) -> Finding:
    _forget_device()
    batch, few, many = (256, 4, 24) if device.is_gpu else (16, 1, 2)
    x = torch.randint(0, 256, (4 * batch, *network.shape), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    images = TrainingImages(Arrays(x, name="memory"), geometry=None, device=torch.device(device.name))
    adversary = Adversary(attack=Pgd(steps=INNER, step_size=SIZE, keep="last")) if attacked else None
    ours = our_loop(network.spec, images, batch, adversary, device.name.partition(":")[0])
    bare = bare_loop(network.spec, (x.float() / 255).to(device.name), batch, attacked)
    ratios, floors = [], []
    with device.peak() as taken:
        for number in range(3):
            further = [device.seconds(partial(run, many)) - device.seconds(partial(run, few)) for run in (ours, bare)]
            if number:  # the first one warms up
                ratios.append(further[0] / further[1])
                floors.append(further[1] / (many - few))
    memory = f", {taken[0]:.1f} GiB" if taken else ""
    found = f"{spread(ratios)} × bare, a step of {1000 * median(floors):.3g} ms at {batch}{memory}"
    figures = {"ratio": median(ratios), "least": min(ratios), "most": max(ratios), "floor": median(floors)}
    return Finding(found, figures=figures | ({"memory": taken[0]} if taken else {}))
