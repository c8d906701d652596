"""Time of a whole audit without labels, as a share of the same measures asked one by one, and beside its bare passes.

    python -m benchmarks.whole_audit [--json]

The paper's Table 5 set on scikit-learn's digits with `zoo:digits-simclr`, no checks; one thread, processor time. Asked
one by one means an audit of its own, in a folder of its own, for each measure. The floor is the audit's own number of
forward and backward passes of the bare network in batches of the same size: what remains above it is choosing, writing
and reading files, comparing all pairs, intervals and pictures, which an encoder this small (about 20 us a pass) cannot
hide.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch

from benchmarks.result import Result, from_rounds, report
from benchmarks.sharing import ENCODER, alone, plan_of
from holdfast.auditing.batch_size import batch_size_for
from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.core import Passes
from holdfast.sources.encoders import open_encoder

TARGET = 0.5
SHORT = ("whole audit*",)
"""Names of what `short` measures."""


def audit(plan: Plan) -> None:
    """Run an audit in a folder of its own.

    Raises:
        RuntimeError: something in it failed.
    """
    with TemporaryDirectory() as folder:
        record = run_audit(plan, Path(folder))
    if record["failures"]:
        raise RuntimeError(f"the audit failed: {record['failures']}")


def bare(passes: Passes) -> Callable[[], None]:
    """Return so many forward and input-gradient passes of the bare network."""
    network, x = open_encoder(ENCODER).module, torch.rand(batch_size_for((1, 8, 8), "cpu"), 1, 8, 8)

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


def measure(images: int = 600, attacked: int = 300, most: int | None = None, rounds: int = 3) -> list[Result]:
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
        floor, wholes, parts, floors = bare(passes), [], [], []
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
            from_rounds("whole audit / its bare passes", of_floor, None, f"floor {median(floors):.1f} s"),
        ]
    finally:
        torch.set_num_threads(threads)


def short() -> list[Result]:
    """Return the same of one round."""
    return measure(rounds=1)


if __name__ == "__main__":
    report(measure, __doc__)
