"""What loops cost on the device, as a multiple of the bare network's passes there."""

from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from benchmarks.gpu.device import Device, spread
from benchmarks.gpu.loops import Setting, attacks, certifiers, draws, learners
from benchmarks.gpu.row import Report, Row
from holdfast.core import Encoder
from holdfast.numerics.geometry.top_k import top
from holdfast.parts.observations.shared.noisy import UNIT
from holdfast.parts.observations.smoothed import block_size
from holdfast.sources.encoders import open_encoder

SECTION = "throughput"
LOOPS = ("pgd", "apgd", "square", "minimum_norm", "pgd, l2", "breaking_radius")
"""Attacks that are timed; Square's steps have no backward pass, a step of breaking_radius is four of PGD."""


def measure(report: Report, device: Device, small: bool) -> None:
    """Add a row for each loop, and for a search of a bank."""
    encoder = open_encoder("zoo:digits-simclr" if small else "zoo:resnet18_32").to(device.name)
    shape, count = ((1, 8, 8), 32) if small else ((3, 32, 32), 512)
    x = torch.rand(count, *shape, generator=torch.Generator().manual_seed(0)).to(device.name)
    at, steps, rounds = Setting(encoder, x), 3 if small else 20, 2 if small else 7
    loops = attacks(at)

    def timed(name: str, work: Callable[[], object], floor: Callable[[], object]) -> None:
        report.attempt(SECTION, name, partial(_row, device, name, work, floor, rounds))

    for name in LOOPS:
        each = 4 if name == "breaking_radius" else 1
        timed(
            f"{name}: step", partial(loops[name], steps), partial(_passes, encoder, x, steps * each, name != "square")
        )
    for name, run in learners(Setting(encoder, x[:64])).items():
        seen = x[:64].repeat(4 if name == "worst_mixture" else 1, 1, 1, 1)  # as many draws of each image
        timed(f"{name}: epoch", partial(run, 2), partial(_passes, encoder, seen, 2, True))
    for name, run in draws(Setting(encoder, x[:4])).items():
        counted, centre = name == "failures counted", "centre" in name
        blocks = 5 if centre else 2  # fewer draws could prove nothing
        noisy = x[:1].repeat(UNIT if counted else block_size(x), 1, 1, 1)
        floor = partial(_passes, encoder, noisy, 4 * blocks * (2 if centre else 1), False)
        timed(f"{name}: {blocks} blocks", partial(run, blocks), floor)
    digits = Setting(open_encoder("zoo:digits-simclr").to(device.name), torch.rand(2, 1, 8, 8).to(device.name))
    for name, bound in certifiers(digits).items():
        timed(name, partial(bound, 2), partial(_passes, digits.encoder, digits.x, 2, True))
    report.attempt(SECTION, "bank search", partial(_search, device, small, rounds))


def _passes(encoder: Encoder, x: torch.Tensor, count: int, backward: bool) -> None:
    """Make bare passes of the network: forward, and backward to the pixels."""
    for _ in range(count):
        pixels = x.detach().requires_grad_(backward)
        with torch.set_grad_enabled(backward):
            total = encoder.module(encoder.normalisation(pixels)).sum()
            if backward:
                torch.autograd.grad(total, pixels)


def _row(device: Device, name: str, work: Callable[[], object], floor: Callable[[], object], rounds: int) -> Row:
    with device.peak() as taken:
        ratios = device.beside(work, floor, rounds)
    memory = f", {taken[0] / 2**20:.0f} MiB" if taken else ""
    return Row(SECTION, name, f"{spread(ratios)} × bare{memory}")


def _search(device: Device, small: bool, rounds: int) -> Row:
    size, dim = (2000, 64) if small else (10**5, 2048)
    bank = torch.randn(size, dim, generator=torch.Generator().manual_seed(0)).to(device.name)
    queries = bank[: 64 if small else 1000]
    seconds = [device.seconds(lambda: top(queries, [bank], 20)) for _ in range(rounds)]  # on the host, wherever it lies
    return Row(SECTION, f"bank search, {size:,} × {dim}", f"{1000 * median(seconds):.1f} ms for {len(queries)} queries")
