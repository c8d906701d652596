"""Time of a whole audit without labels, as a share of the same measures asked one by one, and beside its bare passes.

    python -m benchmarks.whole_audit [--json]

The paper's Table 5 set on scikit-learn's digits with `zoo:digits-simclr`, no checks; one thread, processor time. Asked
one by one means an audit of its own, in a folder of its own, for each measure. The floor is the audit's own number of
forward and backward passes of the bare network in batches of the same size: what remains above it is choosing, writing
and reading files, comparing all pairs, intervals and pictures, which an encoder this small (about 20 us a pass) cannot
hide. Audits of `PROFILES` with ResNet-20, checks included, show what weighs where a pass costs what it usually does;
proofs, which are no passes, are left out of them.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from benchmarks.result import Result, from_rounds, report
from benchmarks.sharing import ENCODER, alone, plan_of
from holdfast.auditing.plan import Plan, batch_size_for
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.run import run_audit
from holdfast.core import Passes, registry
from holdfast.sources.encoders import open_encoder
from holdfast.storage.record import Record

TARGET = 0.5
NEAR = 1.1
"""Of an audit beside its bare passes, at most."""

RESNET = "zoo:resnet20_32"
PROFILES = {"quick": (200, 24), "standard": (64, 4)}
"""Profile -> the images, and how many are attacked, a batch."""

SHORT = ("whole audit / measures*", "whole audit, the same*", "whole audit / its bare passes")
"""Names of what `short` measures."""


def audit(plan: Plan) -> Record:
    """Run an audit in a folder of its own and return its record.

    Raises:
        RuntimeError: something in it failed.
    """
    with TemporaryDirectory() as folder:
        record = run_audit(plan, Path(folder))
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    return record


def bare(passes: Passes, spec: str, x: Tensor) -> Callable[[], None]:
    """Return so many forward and input-gradient passes of the bare network of an encoder, on batches like x."""
    network = open_encoder(spec).module

    def run() -> None:
        for _ in range(passes.backward // len(x)):
            pixels = x.clone().requires_grad_()
            torch.autograd.grad(network(pixels).sum(), pixels)
        with torch.no_grad():
            for _ in range((passes.forward - passes.backward) // len(x)):
                network(x)

    return run


def seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def table_5(images: int = 600, attacked: int = 300, most: int | None = None, rounds: int = 3) -> list[Result]:
    """Return the ratio of times, that of predicted passes beside it, and the time above the bare passes.

    Args:
        images: population.
        attacked: how many of them are attacked.
        most: only so many of the measures; None: all.
        rounds: of the whole audit, its parts and its floor, in turns.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        plan = plan_of(images, attacked, checks=False)
        plan = replace(plan, measures=plan.measures[:most])
        audit(replace(plan, images=20, attacked=4))  # warms up
        passes, apart = plan.predict(images), alone(plan.measures, images, attacked)
        floor = bare(passes, ENCODER, torch.rand(batch_size_for((1, 8, 8), "cpu"), 1, 8, 8))
        wholes, parts, floors = [], [], []
        for _ in range(rounds):
            wholes.append(seconds(lambda: audit(plan)))
            parts.append(sum(seconds(lambda one=one: audit(replace(plan, measures=(one,)))) for one in plan.measures))
            floors.append(seconds(floor))
        asked = f"{len(plan.measures)} measures, {images} images, {attacked} attacked"
        times = f"{asked}: {median(wholes):.1f} s, {median(parts):.1f} s"
        of_parts = [whole / each for whole, each in zip(wholes, parts, strict=True)]
        of_floor = [whole / least for whole, least in zip(wholes, floors, strict=True)]
        counted, note = passes.total / apart.total, f"{passes.total:,} of {apart.total:,}"
        return [
            from_rounds("whole audit / measures one by one", of_parts, TARGET, times),
            Result("whole audit, the same in passes", counted, None, "x", TARGET, note),
            from_rounds("whole audit / its bare passes", of_floor, NEAR, f"floor {median(floors):.1f} s"),
        ]
    finally:
        torch.set_num_threads(threads)


def of_profile(name: str, images: int, attacked: int, rounds: int = 2) -> Result:
    """Return the time of an audit of a profile with ResNet-20, beside the passes that its record says it made.

    Args:
        name: of the profile.
        images: population.
        attacked: how many of them are attacked, in one batch.
        rounds: of the audit and of its floor, in turns.
    """
    plan = make_plan(AuditRequest(
        (RESNET,), "digits?channels=3&size=32", profile=name, images=images, attacked=attacked, examined=attacked,
        batch_size=attacked, budget="none",
    ))  # fmt: skip
    plan = replace(plan, measures=tuple(m for m in plan.measures if not registry.part_name(m).startswith("certified")))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratios, floors = [], []
        for _ in range(rounds):
            began = time.process_time()
            entry = audit(plan).encoders[0]
            whole = time.process_time() - began
            made = [entry.passes, *(check.passes for check in entry.checks.values())]
            passes = sum((Passes(one.forward, one.backward) for one in made if one is not None), Passes())
            floors.append(seconds(bare(passes, RESNET, torch.rand(attacked, 3, 32, 32))))
            ratios.append(whole / floors[-1])
    finally:
        torch.set_num_threads(threads)
    note = f"{len(plan.measures)} measures, {images} images, {attacked} attacked: floor {median(floors):.1f} s"
    return from_rounds(f"whole audit / its bare passes, ResNet-20, {name}", ratios, NEAR, note)


def measure() -> list[Result]:
    """Return what `table_5` measures, and audits of profiles."""
    return [*table_5(), *(of_profile(name, *sizes) for name, sizes in PROFILES.items())]


def short() -> list[Result]:
    """Return the first of one round."""
    return table_5(rounds=1)


if __name__ == "__main__":
    report(measure, __doc__)
