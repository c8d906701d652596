"""How long does a command take before it answers, and an audit before the first image has passed through its encoder?

    python -m benchmarks.startup [--json]

Each is started in a process of its own several times, after once that warms the files up. Starting is work of one
thread, so on a machine that does nothing else both times agree; only processor time has targets, for wall time grows
with what else the machine does. An audit's first pass is told without the import of torch itself: the process imports
torch, then looks at its clock, then runs the command until some module of torch is called for the first time.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.result import Result, report
from benchmarks.store import Run
from benchmarks.tables import figures, markdown

ROUNDS = 7
COMMANDS = {
    "holdfast --help": 0.2, "holdfast list": 0.5, "holdfast list measures": 0.5, "holdfast list encoders": 0.5,
    "holdfast show breakaway_risk": 0.5, "holdfast show quick": 0.5,
}  # fmt: skip
"""Commands -> the most seconds."""

AUDIT = "audit zoo:digits-simclr --data digits --profile quick --images 32 --quiet --out"
FIRST = 2.0
"""Seconds between torch's import and the first encoder pass, at most."""

AGAIN = 0.5
"""Seconds that the same audit takes, asked again, at most."""

_UNTIL_FIRST_PASS = """
import os, sys, time
import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from holdfast.cli import main

def told(module, inputs):
    print(time.process_time() - processor, time.perf_counter() - wall, file=sys.__stderr__, flush=True)
    os._exit(0)

register_module_forward_pre_hook(told)
processor, wall = time.process_time(), time.perf_counter()
main()
"""


def started(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Return the processor time and the wall time of a process, in seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def first_pass(folder: Path) -> tuple[float, float]:
    """Return the times between the import of torch and the first encoder pass of an audit, in seconds."""
    command = [sys.executable, "-c", _UNTIL_FIRST_PASS, *AUDIT.split(), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    processor, wall = done.stderr.splitlines()[-1].split()
    return float(processor), float(wall)


def both(name: str, times: Sequence[tuple[float, float]], target: float | None, note: str = "") -> list[Result]:
    """Return the median and the least of some times."""
    processor, wall = zip(*times, strict=True)
    return [
        Result(f"{name}, processor", median(processor), min(processor), "s", target, note),
        Result(f"{name}, wall", median(wall), min(wall), "s", None),
    ]


def measure(rounds: int = ROUNDS, commands: Mapping[str, float] = COMMANDS) -> list[Result]:
    """Start commands, imports and an audit."""

    def repeated(command: Sequence[str], environment: Mapping[str, str] | None = None) -> list[tuple[float, float]]:
        return [started(command, environment) for _ in range(rounds + 1)][1:]

    results: list[Result] = []
    for line, most in commands.items():
        results += both(line, repeated([sys.executable, "-m", *line.split()]), most)
    words = {"COMP_WORDS": "holdfast audit zoo:d", "COMP_CWORD": "2", "_HOLDFAST_COMPLETE": "complete_bash"}
    tab = [sys.executable, "-c", "from holdfast.cli import main; main()"]
    results += both("Tab after holdfast audit zoo:d", repeated(tab, words), 0.5)
    results += both("import holdfast", repeated([sys.executable, "-c", "import holdfast"]), None)
    results += both("import torch", repeated([sys.executable, "-c", "import torch"]), None, "to compare with")
    with TemporaryDirectory() as folder:
        times = [first_pass(Path(folder, str(number))) for number in range(rounds + 1)][1:]
        again = [sys.executable, "-m", "holdfast", *AUDIT.split(), str(Path(folder, "again"))]
        answered = repeated(again)  # the first of which makes it
    return [
        *results,
        *both("first encoder pass of an audit", times, FIRST, "after torch's import; digits, quick"),
        *both("the same audit again", answered, AGAIN, "digits, quick, 32 images; nothing has changed"),
    ]


def table(run: Run) -> str:
    """Return how soon each command answers, in processor time and on the wall."""
    rows = [
        [processor.name.removesuffix(", processor"), figures(processor.value), figures(wall.value)]
        for processor, wall in zip(run.results[::2], run.results[1::2], strict=True)
    ]
    return markdown(["started", "processor seconds", "seconds on the wall"], rows)


if __name__ == "__main__":
    report(measure, __doc__)
