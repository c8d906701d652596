"""Time of an audit by 1, 2, 4 and 8 worker processes, as a share of one worker's.

    python -m benchmarks.workers [--json] [--plot DIR]

Time on the wall, one thread a worker, starting the processes included, and once more without: less what
the same number of workers takes for a single batch. The server that workers are forked from is started before, as that
of a command starts while it reads plan and images. One plan, two encoders: a busy one computes,
so it is measured up to as many workers as there are cores, and only means something while nobody else wants them; a
waiting one sleeps, as a worker does that waits for its GPU: a simulation of what is lost to starting and scheduling
where there are cores enough. The scores of every run must be those of the first.
"""

import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from benchmarks.curve import Curve
from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown
from holdfast.auditing.plan import Plan
from holdfast.auditing.run import run_audit
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.engines.processes import Processes
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.drift.cosine_to_target import CosineToTarget
from holdfast.parts.threats.linf import Linf

TARGET = 1 / 1.7
COUNTS = (1, 2, 4, 8)
IMAGES, BATCH, STEPS = 512, 16, 10
BUSY, WAITING = "zoo:cnn_b_cifar?mean=0&std=1", "py:benchmarks.workers:waiting?mean=0&std=1"
PAUSE = 0.05
"""Seconds that `waiting` sleeps in every forward pass."""


class Waiting(nn.Module):
    """A network that costs a worker time, and the machine nothing: its first 32 pixels, after a while."""

    def __init__(self, pause: float = PAUSE):
        super().__init__()
        self.pause, self.scale = pause, nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        """Return pixels, [B, 32]."""
        time.sleep(self.pause)
        return self.scale * x.flatten(1)[:, :32] ** 2


def waiting() -> nn.Module:
    """Return the network of `py:benchmarks.workers:waiting`."""
    return Waiting()


def plan_of(encoder: str, images: int) -> Plan:
    """Return an audit of many short units: two attacks, no checks."""
    measures = (CosineToSelf(Pgd(STEPS), Linf(0.1)), CosineToTarget(Pgd(STEPS), Linf(0.1)))
    return Plan((encoder,), "digits?channels=3&size=32", measures, images=images, batch_size=BATCH)


def run(plan: Plan, workers: int) -> tuple[float, object]:
    """Return the time of an audit on the wall, and its scores."""
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        record = run_audit(plan, Path(folder), engine=Processes(workers, threads=1))
        spent = time.perf_counter() - began
    if record.failures:
        raise RuntimeError(f"the audit failed: {record.failures}")
    return spent, {name: entry.scores for name, entry in record.encoders[0].measures.items()}


def measure(counts: tuple[int, ...] = COUNTS, images: int = IMAGES) -> list[Result]:
    """Return, for both encoders, the time of so many workers as a share of one worker's.

    Args:
        counts: numbers of workers, 1 first.
        images: of which all are attacked.
    """
    cores = os.cpu_count() or 1
    busy = tuple(count for count in counts if count <= cores)
    encoders = {"busy": (BUSY, busy), "waiting (simulated)": (WAITING, counts)}
    results = []
    run(plan_of(BUSY, BATCH), 1)  # starts the server
    for name, (encoder, tried) in encoders.items():
        starts = [run(plan_of(encoder, BATCH), count)[0] for count in tried]
        found = [run(plan_of(encoder, images), count) for count in tried]
        if any(scores != found[0][1] for _, scores in found):
            raise RuntimeError(f"{name}: expected the same scores from every number of workers")
        curve = Curve(f"workers, {name}", "workers", "seconds on the wall", tried, tuple(spent for spent, _ in found))
        net = [max(spent - start, 1e-3) for spent, start in zip(curve.values, starts, strict=True)]
        note = (
            f"{curve.text()} s, of which one batch takes {', '.join(f'{start:.1f}' for start in starts)}; {cores} cores"
        )
        for place, count in enumerate(tried[1:], 1):
            target, drawn = TARGET if count == 2 else None, curve if count == tried[-1] else None
            whole, label = curve.values[place] / curve.values[0], f"{count} workers / 1 worker, {name}"
            results.append(Result(label, whole, None, "x", target, note, drawn))
            results.append(
                Result(f"{label}, starting left out", net[place] / net[0], None, "x", None, "less one batch's")
            )
    return results


def table(run: Run) -> str:
    """Return the time on the wall by numbers of workers, and shares of one worker's."""
    rows = []
    for result in run.results:
        if result.curve is None:
            continue
        name, spent = result.curve.title.partition(", ")[2], result.curve.values
        for count, seconds in zip(result.curve.sizes[1:], spent[1:], strict=True):
            net = run.of(f"{count} workers / 1 worker, {name}, starting left out").value
            times = f"{figures(spent[0])} and {figures(seconds)}"
            rows.append([name, f"{count}", times, figures(seconds / spent[0]), figures(net)])
    return markdown(["encoder", "workers", "seconds of 1 and of these", "share", "starting left out"], rows)


if __name__ == "__main__":
    report(measure, __doc__)
