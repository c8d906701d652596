"""What a step of PGD costs on networks of photos, beside the bare frozen network, at the batch that fills the card."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor

from benchmarks.gpu.device import Device
from benchmarks.gpu.loops import ATTACKS, Run, Setting
from benchmarks.gpu.networks import RESNET50, VIT_B16, Network
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from benchmarks.own_work import Free
from holdfast.core import Encoder
from holdfast.core.precision import use_precision

SIZES = (64, 128, 256, 512, 1024)
"""Batch sizes that are tried, until a larger one is hardly faster."""

GAIN = 1.03
"""A larger batch fills the card better if it passes so many times as many images a second."""


@dataclass(frozen=True)
class Way:
    """How passes are made.

    Attributes:
        precision: see `Encoder.prepare`.
        compiled: by torch.compile, both the encoder and the bare network.
    """

    precision: str
    compiled: bool = False

    @property
    def title(self) -> str:
        """How tables call it."""
        return f"{self.precision}, compiled" if self.compiled else self.precision


EAGER = (Way("float32"), Way("tf32"), Way("bf16"))
COMPILED = (Way("bf16", True), Way("float32", True))


def tasks(device: Device, ways: tuple[Way, ...]) -> Iterator[Task]:
    """Yield a task for each network and way."""
    for way in ways:
        for network in (RESNET50, VIT_B16):
            without = (
                "it needs CUDA" if way.precision == "tf32" else "it takes minutes on a CPU" if way.compiled else ""
            )
            slow = network is VIT_B16 and way.precision == "bf16"
            without = "" if device.is_gpu else without or ("it takes minutes on a CPU" if slow else "")
            work, limit = partial(_measure, device, network, way), 120.0 if way.compiled else 60.0
            yield Task("steps", f"{network.title}, {way.title}: PGD", work, limit, network.needs, without)


def bare(encoder: Encoder, way: Way) -> Callable[[Tensor, int], None]:
    """Return a loop of so many passes of the bare network, forward and backward to the pixels, as one writes it."""
    mean, std, network = encoder.normalisation.mean, encoder.normalisation.std, encoder.module

    def forward(x: Tensor) -> Tensor:
        return network((x - mean) / std)

    call = torch.compile(forward) if way.compiled else forward

    def run(x: Tensor, count: int) -> None:
        with use_precision(way.precision, x.device):
            for _ in range(count):
                pixels = x.detach().requires_grad_()
                torch.autograd.grad(call(pixels).float().sum(), pixels)

    return run


def filling(device: Device, run: Callable[[Tensor, int], None], pictures: Tensor) -> dict[int, float]:
    """Return images a second at growing batch sizes, until a larger one gains little or does not fit."""
    rates: dict[int, float] = {}
    for size in [size for size in SIZES if size <= len(pictures)] or [len(pictures)]:
        try:
            x = pictures[:size]
            run(x, 1)
            rates[size] = 2 * size / device.seconds(lambda x=x: run(x, 2))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            break
        if rates[size] < GAIN * max([*list(rates.values())[:-1], 0]):
            break
    return rates


def _measure(device: Device, network: Network, way: Way) -> Finding:
    steps, rounds = (3, 2) if device.is_gpu else (1, 1)
    encoder = network.encoder(device).prepare(precision=way.precision, compiled=way.compiled)
    run = bare(encoder, way)
    pictures = network.pictures(encoder, SIZES[-1] if device.is_gpu else 2)
    # The smallest batch that is about as fast as any
    rates = filling(device, run, pictures)
    batch = min(size for size, rate in rates.items() if GAIN * rate >= max(rates.values()))
    x = pictures[:batch].clone(memory_format=torch.preserve_format)
    del pictures
    with device.peak() as taken:
        taking, bare_taking = _step(device, ATTACKS["pgd"](Setting(encoder, x)), partial(run, x), steps, rounds)
    # What a step does beside the network, on one that costs nothing
    free = Encoder(Free(), mean=0.5, std=0.25).to(device.name).prepare(precision=way.precision)
    alone = _step(device, ATTACKS["pgd"](Setting(free, x)), partial(bare(free, Way(way.precision)), x), 10, rounds)
    work = max(0.0, alone[0] - alone[1]) / bare_taking
    default = rates.get(network.own_batch, 0.0) / max(rates.values())
    memory = f", {taken[0]:.1f} GiB" if taken else ""
    found = f"{taking / bare_taking:.3f} × bare, {1 + work:.3f} by its own work; {batch / bare_taking:,.0f} images/s"
    figures = {"step": taking / bare_taking, "work": 1 + work, "bare": batch / bare_taking, "batch": batch}
    figures |= {"default": default} | ({"memory": taken[0]} if taken else {})
    return Finding(f"{found} at {batch}{memory}", figures=figures)


def _step(device: Device, attack: Run, passes: Callable[[int], object], steps: int, rounds: int) -> tuple[float, float]:
    """Return the seconds of a step and of a bare one: what twice as many take more, in turns, after one warming up."""
    taking, floors = [], []
    for number in range(rounds + 1):
        few, many = (device.seconds(partial(attack, count)) for count in (steps, 2 * steps))
        floor = device.seconds(partial(passes, 2 * steps)) - device.seconds(partial(passes, steps))
        if number:
            taking.append((many - few) / steps)
            floors.append(floor / steps)
    return median(taking), median(floors)
