"""How often a step of each loop makes the host wait: on a GPU that there is, or on a pretended one."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from benchmarks.gpu.device import Device
from benchmarks.gpu.loops import ATTACKS, CERTIFIERS, DRAWS, LEARNERS, Loop, Run, Setting, small_network
from benchmarks.gpu.pretend import Pretended, pretended_gpu
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from benchmarks.gpu.waits import UP, Waits
from holdfast.core import Encoder

FEW = 4
"""Steps of the shorter of two runs; the other one has twice as many."""

WAITS = {"universal": 1, "worst_mixture": 1}
"""Learner -> waits of an epoch, whose success is read; those of all other loops' steps are 0."""

LOOKED_AT = "once a block, to stop early"
"""Why draws wait: once a block of up to 1,024 encoder passes an image, or a few times."""


def tasks(device: Device) -> Iterator[Task]:
    """Yield a task for each loop."""
    for name, loop in {**ATTACKS, **LEARNERS, **CERTIFIERS}.items():
        yield Task("waits", name, partial(_step, device, name, loop))
    for name, loop in DRAWS.items():
        yield Task("waits", name, partial(_block, device, name, loop))
    for name in ("pgd", "apgd", "minimum_norm"):
        without = "" if device.is_gpu else "it needs CUDA"
        yield Task("waits", f"{name}, by torch", partial(_by_torch, device, name), without=without)


def setting(device: str) -> Setting:
    """Return a small network and six images."""
    x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Setting(Encoder(small_network(), mean=0.4, std=0.3, name="small").to(device), x.to(device))


def per_step(name: str, run: Run, counter: Waits | Pretended) -> float:
    """Return (waits of 2k steps - waits of k steps) / k."""
    counts = []
    run(2)  # what is made once, such as a traced network
    for steps in (FEW, 2 * FEW):
        counter.kinds.clear()
        run(steps)
        # of the smallest change the number of searches grows with the budget, and each sends its start
        counts.append(counter.kinds.total() - (counter.kinds[UP] if name == "breaking_radius" else 0))
    return (counts[1] - counts[0]) / FEW


def _step(device: Device, name: str, loop: Loop) -> Finding:
    with _counting(device) as (counter, place):
        waits, allowed = per_step(name, loop(setting(place)), counter), WAITS.get(name, 0)
    unit = "an epoch" if name in WAITS else "a step"
    return Finding(f"{waits:g} {unit}", f"≤ {allowed}", waits <= allowed, {"waits": waits})


def _block(device: Device, name: str, loop: Loop) -> Finding:
    with _counting(device) as (counter, place):
        at = setting(place)
        waits = per_step(name, loop(at), counter) / len(at.x)
    return Finding(f"{waits:.2f} an image and block", LOOKED_AT, figures={"waits": waits})


def _by_torch(device: Device, name: str) -> Finding:
    """Count what torch itself warns of, which includes what no dispatch shows."""
    run, counts = ATTACKS[name](setting(device.name)), []
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
    return Finding(f"{waits:g} a step", "≤ 0", waits <= 0, {"waits": waits})


@contextmanager
def _counting(device: Device) -> Iterator[tuple[Waits | Pretended, str]]:
    """Yield what counts waits, and the name of the device that it watches."""
    if device.is_gpu:
        with Waits(torch.device(device.name)) as counter:
            yield counter, device.name
    else:
        with pretended_gpu() as pretended:
            yield pretended, "cuda"
