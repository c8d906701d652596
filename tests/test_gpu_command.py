"""The command for a borrowed GPU: rows come as they are made, whatever a row does to its process."""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks are no part of the package

from benchmarks.gpu.conduct import conduct
from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Finding, Report, read
from benchmarks.gpu.task import Task

CPU = Device("cpu")


def good() -> Finding:
    return Finding("fine", "fine", True)


def crash() -> Finding:
    os.kill(os.getpid(), signal.SIGSEGV)
    return good()


def leave() -> Finding:
    os._exit(3)


def hang() -> Finding:
    time.sleep(600)
    return good()


def raises() -> Finding:
    raise ValueError("first line\nsecond line")


def listed(*works: Callable[[], Finding]) -> list[Task]:
    return [Task("waits", work.__name__, work, limit=5 if work is hang else 60) for work in works]


def rows(folder: Path, *works: Callable[[], Finding], seconds: float = 120) -> dict[str, Finding]:
    report = Report(CPU.machine("abc"), folder)
    conduct(partial(listed, *works), CPU, report, seconds)
    machine, written = read(folder / "gpu.jsonl")
    assert (machine, written) == (report.machine, report.rows)
    return {row.name: row.finding for row in report.rows}


def test_whatever_a_row_does_the_next_one_is_made(tmp_path: Path) -> None:
    made = rows(tmp_path, crash, good, leave, raises, hang)
    assert list(made) == ["crash", "good", "leave", "raises", "hang"]
    assert made["good"].met is True
    assert [made[name].met for name in ("crash", "leave", "raises", "hang")] == [False] * 4
    assert "SIGSEGV" in made["crash"].found
    assert "status 3" in made["leave"].found
    assert made["raises"].found == "ValueError: first line"
    assert made["hang"].found == "killed after 5 s, its limit"
