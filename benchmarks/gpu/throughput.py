"""What each loop costs on the device, as a multiple of the bare network's passes there."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import median

import torch
from torch import Tensor

from benchmarks.gpu.device import Device, spread
from benchmarks.gpu.loops import ATTACKS, CERTIFIERS, DRAWS, LEARNERS, Loop, Setting
from benchmarks.gpu.networks import DIGITS, RESNET18, RESNET50, Network
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.core import Encoder
from holdfast.core.precision import use_precision
from holdfast.parts.observations.shared.noisy import UNIT
from holdfast.parts.observations.smoothed import block_size

TIMED = ("apgd", "square", "minimum_norm", "pgd, l2", "breaking_radius")
"""Attacks that are timed beside PGD; Square's steps have no backward pass."""

IMAGES = {RESNET50: 64, RESNET18: 512}
"""Images that are attacked at a time: what an audit takes of photos, and fewer than it takes of small images."""


def draws(device: Device) -> Iterator[Task]:
    """Yield the tasks of noisy draws."""
    return _tasks(device, DRAWS, _draws)


def learners(device: Device) -> Iterator[Task]:
    """Yield the tasks of learned noises."""
    return _tasks(device, LEARNERS, _epoch)


def attacks(device: Device) -> Iterator[Task]:
    """Yield the tasks of all attacks that `photos` does not time, and of PGD on small images."""
    yield _task(device, RESNET18, "pgd", ATTACKS["pgd"], _step)
    yield from _tasks(device, {name: ATTACKS[name] for name in TIMED}, _step)


def certifiers(device: Device) -> Iterator[Task]:
    """Yield the tasks of bounds."""
    for name, loop in CERTIFIERS.items():
        yield _task(device, DIGITS, name, loop, _ascent)


CENTRE_DRAWS = 1199
"""Draws with which a smoothed centre can prove anything."""

Measure = Callable[[Device, Network, str, Loop], Finding]


def _tasks(device: Device, loops: Mapping[str, Loop], measure: Measure) -> Iterator[Task]:
    for network in (RESNET50, RESNET18):
        for name, loop in loops.items():
            yield _task(device, network, name, loop, measure)


def _task(device: Device, network: Network, name: str, loop: Loop, measure: Measure) -> Task:
    shown = DIGITS if network is RESNET18 and not device.is_gpu else network
    without = "it takes minutes on a CPU" if network is RESNET50 and not device.is_gpu else ""
    work = partial(measure, device, shown, name, loop)
    return Task("loops", f"{shown.title}: {name}", work, 60.0, network.needs, without)


def _setting(device: Device, network: Network, most: int) -> Setting:
    encoder = network.encoder(device)
    return Setting(encoder, network.pictures(encoder, min(IMAGES.get(network, 32), most)))


def _step(device: Device, network: Network, name: str, loop: Loop) -> Finding:
    at, long = _setting(device, network, 512), network is RESNET50 or name == "breaking_radius"
    steps = (5 if long else 20) if device.is_gpu else 3
    passes = partial(_passes, at.encoder, at.x, backward=name != "square")
    return _timed(device, "step", loop(at), passes, steps, 4 if name == "breaking_radius" else 1)


def _epoch(device: Device, network: Network, name: str, loop: Loop) -> Finding:
    at = _setting(device, network, 64)
    seen = at.x.repeat(4 if name == "worst_mixture" else 1, 1, 1, 1)  # as many draws of each image
    return _timed(device, "epoch", loop(at), partial(_passes, at.encoder, seen, backward=True), 2)


def _draws(device: Device, network: Network, name: str, loop: Loop) -> Finding:
    at, centre = _setting(device, network, 4), "centre" in name
    noisy = at.x[:1].repeat(UNIT if name == "failures counted" else block_size(at.x), 1, 1, 1)
    blocks = max(5, math.ceil(CENTRE_DRAWS / block_size(at.x))) if centre else 2
    passes = partial(_passes, at.encoder, noisy, backward=False)
    return _timed(device, "block", loop(at), passes, blocks, len(at.x) * (2 if centre else 1), whole=True)


def _ascent(device: Device, network: Network, name: str, loop: Loop) -> Finding:
    encoder = network.encoder(device)
    at = Setting(encoder, network.pictures(encoder, 2))
    return _timed(device, "step", loop(at), partial(_passes, encoder, at.x, backward=True), 2)


def _timed(
    device: Device,
    unit: str,
    work: Callable[[int], object],
    passes: Callable[[int], object],
    count: int,
    each: int = 1,
    *,
    whole: bool = False,
) -> Finding:
    """Time units of work beside the bare passes that they are.

    Args:
        device: that both run on.
        unit: what one is called.
        work: does so many units.
        passes: makes so many bare passes.
        count: of units.
        each: passes of a unit.
        whole: divide all that so many take, since fewer are another piece of work; else what twice as many take more.
    """
    ratios, floors = [], []
    with device.peak() as taken:
        for number in range(4 if device.is_gpu else 2):
            spent = device.seconds(partial(work, count))
            if not whole:
                spent = device.seconds(partial(work, 2 * count)) - spent
            floor = device.seconds(partial(passes, count * each))
            if number:  # the first one warms up
                ratios.append(spent / floor)
                floors.append(floor / count)
    memory = f", {taken[0]:.2f} GiB" if taken else ""
    figures = {"ratio": median(ratios), "least": min(ratios), "most": max(ratios), "floor": median(floors)}
    found = f"{spread(ratios)} × bare, a {unit} of {1000 * median(floors):.3g} ms{memory}"
    return Finding(found, figures=figures | ({"memory": taken[0]} if taken else {}))


def _passes(encoder: Encoder, x: Tensor, count: int, *, backward: bool) -> None:
    """Make bare passes of the network in float32: forward, and backward to the pixels."""
    with use_precision("float32", x.device):
        for _ in range(count):
            pixels = x.detach().requires_grad_(backward)
            with torch.set_grad_enabled(backward):
                total = encoder.module(encoder.normalisation(pixels)).sum()
                if backward:
                    torch.autograd.grad(total, pixels)
