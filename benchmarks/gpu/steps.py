"""How often a step of each loop makes the host wait: on a GPU that there is, or on a pretended one."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.loops import Setting, attacks, certifiers, draws, learners, small_network
from benchmarks.gpu.pretend import Pretended, pretended_gpu
from benchmarks.gpu.row import Report, Row
from benchmarks.gpu.waits import UP, Waits
from holdfast.core import Encoder

SECTION = "waits"
FEW = 4
"""Steps of the shorter of two runs; the other one has twice as many."""

WAITS = {"universal": 1, "worst_mixture": 1}
"""Learner -> waits of an epoch, whose success is read; those of all other loops' steps are 0."""

LOOKED_AT = "the host looks at each block, to stop early"
"""Why draws wait: once a block of up to 1,024 encoder passes an image, or a few times."""


def count(report: Report, device: Device) -> None:
    """Add a row for each loop."""
    with _counting(device) as (counter, name):
        at = Setting(Encoder(small_network(), mean=0.4, std=0.3, name="small").to(name), _images().to(name))
        for group in (attacks, learners, certifiers):
            for loop, run in group(at).items():
                report.attempt(SECTION, loop, lambda loop=loop, run=run: _row(loop, run, counter))
        for loop, run in draws(at).items():
            report.attempt(SECTION, loop, lambda loop=loop, run=run: _block(loop, run, counter))
    if device.is_gpu:
        for loop in ("pgd", "apgd", "minimum_norm"):
            report.attempt(SECTION, f"{loop}, by torch", lambda loop=loop: _by_torch(device, loop))


def per_step(loop: str, run: Callable[[int], object], counter: Waits | Pretended) -> float:
    """Return (waits of 2k steps - waits of k steps) / k."""
    counts = []
    run(2)  # what is made once, such as a traced network
    for steps in (FEW, 2 * FEW):
        counter.kinds.clear()
        run(steps)
        # of the smallest change the number of searches grows with the budget, and each sends its start
        counts.append(counter.kinds.total() - (counter.kinds[UP] if loop == "breaking_radius" else 0))
    return (counts[1] - counts[0]) / FEW


def _row(loop: str, run: Callable[[int], object], counter: Waits | Pretended) -> Row:
    waits, allowed = per_step(loop, run, counter), WAITS.get(loop, 0)
    unit = "an epoch" if loop in WAITS else "a step"
    return Row(SECTION, loop, f"{waits:g} {unit}", f"≤ {allowed}", waits <= allowed)


def _block(loop: str, run: Callable[[int], object], counter: Waits | Pretended) -> Row:
    waits = per_step(loop, run, counter) / len(_images())
    return Row(SECTION, loop, f"{waits:.2f} an image and block", LOOKED_AT)


def _by_torch(device: Device, loop: str) -> Row:
    """Count what torch itself warns of, which includes what no dispatch shows."""
    at = Setting(Encoder(small_network(), mean=0.4, std=0.3).to(device.name), _images().to(device.name))
    run, counts = attacks(at)[loop], []
    run(2)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        for steps in (FEW, 2 * FEW):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run(steps)
            counts.append(sum("synchroniz" in str(warning.message) for warning in caught))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    waits = (counts[1] - counts[0]) / FEW
    return Row(SECTION, f"{loop}, by torch", f"{waits:g} a step", "≤ 0", waits <= 0)


@contextmanager
def _counting(device: Device) -> Iterator[tuple[Waits | Pretended, str]]:
    """Yield what counts waits, and the name of the device that it watches."""
    if device.is_gpu:
        with Waits(torch.device(device.name)) as counter:
            yield counter, device.name
    else:
        with pretended_gpu() as pretended:
            yield pretended, "cuda"


def _images() -> torch.Tensor:
    return torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
