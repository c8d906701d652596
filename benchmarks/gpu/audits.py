"""Whole audits on the device: what one takes beside its bare passes, where memory is short, and by two processes."""

import gc
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.gpu.correctness import LIMIT, scores_apart
from benchmarks.gpu.device import Device
from benchmarks.gpu.networks import DIGITS, RESNET18, RESNET50, VIT_B16, Network
from benchmarks.gpu.row import Finding
from benchmarks.gpu.task import Task
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.run import run_audit
from holdfast.core import registry
from holdfast.core.precision import use_precision
from holdfast.storage.record import Record
from holdfast.storage.record_file import LOG

SHORT = 0.6
"""Share of what an audit takes that is left to it where memory is short: half a batch has room."""

WORKERS = 2

NOISE = "gaussian?shape={}x{}x{}"
"""Images that need no file."""


def whole(device: Device) -> Iterator[Task]:
    """Yield the tasks of whole audits of photos."""
    for network, precision in ((RESNET50, "float32"), (VIT_B16, "float32"), (RESNET50, "bf16")):
        without = "" if device.is_gpu else "it takes minutes on a CPU"
        work = partial(_beside_passes, device, network, precision)
        yield Task("audits", f"quick, {network.title}, {precision}", work, 75.0, network.needs, without)
    if not device.is_gpu:
        yield Task("audits", "quick, CNN of digits, float32", partial(_beside_passes, device, DIGITS, "float32"))


def memory(device: Device) -> Iterator[Task]:
    """Yield the task of an audit whose batches do not fit."""
    without = "" if device.is_gpu else "it needs a card's memory"
    yield Task("memory", "batches that do not fit are halved", partial(_halved, device), without=without)


def together(device: Device) -> Iterator[Task]:
    """Yield the tasks of several processes on one card, and of one on each of two."""
    gpus = torch.cuda.device_count() if device.is_gpu else 0
    yield Task("processes", f"{WORKERS} on one card", partial(_several, device, "processes", min(gpus, 1)), 90.0)
    without = "" if gpus > 1 else f"{gpus or 'no'} GPU, two are needed"
    yield Task("processes", "a card each", partial(_several, device, "processes", gpus), 90.0, without=without)
    without = "" if device.is_gpu else "in a rehearsal"
    yield Task("processes", "Ray, on one card", partial(_several, device, "ray", gpus), 90.0, ("ray",), without)


def _audit(network: Network, place: str, **options: Any) -> Record:
    plan = make_plan(
        AuditRequest((network.spec,), _images(network), profile="quick", device=place, budget="none", **options)
    )
    with TemporaryDirectory() as folder:
        try:
            record = run_audit(plan, Path(folder))
        finally:
            if (log := Path(folder, LOG)).exists():  # the folder goes, and so does the machine
                print(log.read_text(encoding="utf-8"), file=sys.stderr)
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    return record


def _images(network: Network) -> str:
    return "digits" if network is DIGITS else NOISE.format(*network.shape)


def _beside_passes(device: Device, network: Network, precision: str) -> Finding:
    images, attacked = (64, 32) if device.is_gpu else (40, 4)
    options = {"images": images, "attacked": attacked, "precision": precision}
    _audit(network, device.name, **{**options, "images": 8, "attacked": 2, "examined": 1})  # warms up
    with device.peak() as taken:
        began = time.perf_counter()
        entry = _audit(network, device.name, **options).encoders[0]
        spent = time.perf_counter() - began
    made = [entry.passes, *(check.passes for check in entry.checks.values())]
    forward, backward = (sum(getattr(one, kind) for one in made if one is not None) for kind in ("forward", "backward"))
    encoder = network.encoder(device)
    x = network.pictures(encoder, network.own_batch if device.is_gpu else 4)

    def passes(count: int, searching: bool) -> None:
        with use_precision(precision if searching else "float32", x.device):
            for _ in range(-(-count // len(x))):
                pixels = x.detach().requires_grad_(searching)
                with torch.set_grad_enabled(searching):
                    reps = encoder.module(encoder.normalisation(pixels))
                    if searching:
                        torch.autograd.grad(reps.float().sum(), pixels)

    passes(len(x), True)
    floor = device.seconds(lambda: (passes(backward, True), passes(forward - backward, False)))
    memory = f", {taken[0]:.1f} GiB" if taken else ""
    longest = sorted(entry.observations, key=lambda one: -one.seconds)
    rest = spent - sum(one.seconds for one in longest)
    where = ", ".join(f"{one.part['name']} {one.seconds:.1f}" for one in longest[:3])
    found = (
        f"{spent:.1f} s, {spent / floor:.2f} × its bare passes ({forward + backward:,}){memory}; {where}, "
        f"beside observations {rest:.1f} s"
    )
    figures = {"seconds": spent, "ratio": spent / floor, "passes": forward + backward, "images": images}
    return Finding(found, figures=figures | {"attacked": attacked} | ({"memory": taken[0]} if taken else {}))


def _halved(device: Device) -> Finding:
    options: dict[str, Any] = {"images": 512, "attacked": 512, "batch_size": 512}
    with device.peak() as taken:
        usual = _audit(RESNET18, device.name, **options).encoders[0].measures
    there_is = torch.cuda.get_device_properties(device.name).total_memory / 2**30
    # an encoder and its listeners know each other, and cuBLAS keeps its workspaces
    gc.collect()
    torch.cuda.empty_cache()
    kept = torch.cuda.memory_reserved(device.name) / 2**30
    room = kept + SHORT * (taken[0] - kept)
    torch.cuda.set_per_process_memory_fraction(room / there_is, device.name)
    try:
        short = _audit(RESNET18, device.name, **options).encoders[0].measures
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device.name)
    apart, where = max(scores_apart(short, usual))
    found = f"{taken[0] - kept:.2f} GiB, then {SHORT:.0%} of it: scores apart {apart:.2g}{where if apart else ''}"
    return Finding(found, f"≤ {LIMIT}", apart <= LIMIT, {"apart": apart, "memory": taken[0] - kept})


def _several(device: Device, engine: str, gpus: int) -> Finding:
    options: dict[str, Any] = {"images": 512, "attacked": 256, "batch_size": 64} if device.is_gpu else {}
    options = options or {"images": 24, "attacked": 4, "examined": 1, "queries": 4}
    network, place = RESNET18 if device.is_gpu else DIGITS, "cuda" if device.is_gpu else "cpu"
    plan = make_plan(AuditRequest((network.spec,), _images(network), budget="none", device=place, **options))
    each = min(1.0, gpus / WORKERS) if engine == "ray" else gpus
    made, seconds = [], []
    for workers in (WORKERS, 1):
        chosen = registry.part("engines", engine, workers=workers, gpus=each) if workers > 1 else None
        began = time.perf_counter()
        with TemporaryDirectory() as folder:
            record = run_audit(plan, Path(folder), **({} if chosen is None else {"engine": chosen}))
        seconds.append(time.perf_counter() - began)
        if record.failures:
            raise RuntimeError(f"the audit of {workers} failed: {record.failures}")
        made.append(record.encoders[0].measures)
    apart, where = max(scores_apart(*made))
    found = f"{seconds[0]:.1f} s, alone {seconds[1]:.1f} s; scores apart {apart:.2g}{where if apart else ''}"
    figures = {"apart": apart, "seconds": seconds[0], "alone": seconds[1]}
    return Finding(found, f"≤ {LIMIT}", apart <= LIMIT, figures)
