"""Make rows one after the other in a process of their own, so that none can take the others with it.

One that takes too long is killed, one that crashes its process or loses the GPU is a row that says so, and a new
process goes on with the next. What the time for all does not reach says so, too.
"""

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from benchmarks.gpu.device import Device
from benchmarks.gpu.row import Finding, Report, Row
from benchmarks.gpu.task import Task

Tasks = Callable[[], Sequence[Task]]
"""Makes the list of tasks, the same in every process."""

START = 120.0
"""Seconds that a process may take before its first row: it imports torch, from a disk that may be slow."""

LEAST = 2.0
"""Seconds in which no further row begins."""

LATE = "not reached: the time for all was over"
"""What is said of rows that were not made for want of time, or not to their end."""


def conduct(tasks: Tasks, device: Device, report: Report, seconds: float) -> None:
    """Make all rows that the time allows.

    Args:
        tasks: makes what is to be done; sent to processes by its name.
        device: that they run on.
        report: gets the rows.
        seconds: for all together.
    """
    end, waiting = time.monotonic() + seconds, list(enumerate(tasks()))
    try:
        while waiting:
            _in_one_process(tasks, waiting, device, report, end)
    except KeyboardInterrupt:
        report.add(Row(waiting[0][1].section, "interrupted", Finding("what follows was not made")))


def _in_one_process(tasks: Tasks, waiting: list[tuple[int, Task]], device: Device, report: Report, end: float) -> None:
    """Make rows until none is left or the process is gone, and take what is done from the list."""
    worker: _Worker | None = None
    try:
        while waiting:
            place, task = waiting[0]
            left = end - time.monotonic()
            if why := task.left_out or ("" if left > LEAST else LATE):
                row, lost = Row(task.section, task.name, Finding(why)), False
            else:
                began = time.monotonic()
                try:
                    worker = worker or _Worker(tasks, device, min(START, left))
                    row, lost = worker.ask(place, min(task.limit, end - time.monotonic()))
                except _GoneError as gone:
                    late = time.monotonic() > end - 1  # it was not its own limit that ended it
                    finding = Finding(LATE) if late else Finding(str(gone), "no error", False)
                    row, lost = Row(task.section, task.name, finding, time.monotonic() - began), True
            report.add(row)
            del waiting[0]
            if lost:
                return
    finally:
        if worker is not None:
            worker.end()


class _GoneError(Exception):
    """A process that no longer answers, and why."""


class _Worker:
    """A process that makes rows when it is asked to."""

    def __init__(self, tasks: Tasks, device: Device, seconds: float):
        context = multiprocessing.get_context("spawn")
        self._connection, far_end = context.Pipe()
        self._process: BaseProcess = context.Process(target=_work, args=(far_end, tasks, device))
        self._process.start()
        far_end.close()
        try:
            self._answer(seconds)
        except BaseException:
            self.end()
            raise

    def ask(self, place: int, seconds: float) -> tuple[Row, bool]:
        """Return the row of a task, and whether the process can make no further one.

        Raises:
            _GoneError: it died, or took longer.
        """
        self._connection.send(place)
        return self._answer(seconds)

    def _answer(self, seconds: float) -> Any:
        ready = wait([self._connection, self._process.sentinel], max(0.0, seconds))
        if not ready:
            raise _GoneError(f"killed after {seconds:.0f} s, its limit")
        try:
            if self._connection in ready or self._connection.poll():
                return self._connection.recv()
        except (EOFError, OSError):
            pass
        self._process.join()
        code = self._process.exitcode or 0
        raise _GoneError(f"its process died: {signal.Signals(-code).name if code < 0 else f'status {code}'}")

    def end(self) -> None:
        """End it at once, with all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        self._process.kill()
        self._process.join()


def _work(connection: Connection, tasks: Tasks, device: Device) -> None:
    """Make the rows that are asked for, in a process and a group of its own, which end with the one that asks."""
    os.setsid()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os.killpg(0, signal.SIGKILL)), daemon=True).start()
    listed = tasks()
    connection.send("ready")
    with suppress(EOFError, BrokenPipeError):
        while True:
            task = listed[connection.recv()]
            began = time.perf_counter()
            finding = attempt(task.work)
            lost = finding.met is False and device.lost()
            connection.send((Row(task.section, task.name, finding, time.perf_counter() - began), lost))


def attempt(work: Callable[[], Finding]) -> Finding:
    """Return what work finds; what it raises is a finding that is not as it must be."""
    try:
        return work()
    except Exception as error:  # whatever fails on a device that nobody has tried is what is looked for
        traceback.print_exc()  # of a machine that is gone afterwards, it is all that tells where
        lines = str(error).strip().splitlines() or [""]
        return Finding(f"{type(error).__name__}: {lines[0][:200]}", "no error", False)
