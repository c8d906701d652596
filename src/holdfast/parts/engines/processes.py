"""Worker processes on this machine."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn

from holdfast.core.engine import Engine, Outcome, Pool, Work
from holdfast.parts.engines.shared.pool import STARTS, packed, portable, unpacked, unready
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import HoldfastError
from holdfast.runtime.foreign import Ended, foreign

VISIBLE = "CUDA_VISIBLE_DEVICES"
EACH, AT_LEAST = 4, 16
"""Workers for each core, at most; and how many there may be however few cores there are."""

PATIENCE = 5.0
"""Seconds in which a worker must end when it is told to."""


@dataclass(frozen=True)
class Processes(Engine):
    """Processes that are started afresh; one that dies is replaced.

    Attributes:
        workers: how many.
        threads: of torch in each worker; 0: the cores of the machine divided among them.
        gpus: how many GPUs the workers share, each of which sees one only; 0: all see what this process sees.
    """

    workers: Count = 2
    threads: int = 0
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.workers > (most := max(AT_LEAST, EACH * cores())):
            raise HoldfastError(
                f"processes: expected at most {most} workers on {cores()} cores, got {self.workers}; more only wait "
                f"for each other: --workers {cores()}"
            )

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"{self.workers} worker process{'es' if self.workers > 1 else ''}"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        """Start the processes.

        Raises:
            HoldfastError: work that cannot be sent to other processes.
        """
        threads = self.threads or max(1, cores() // self.workers)
        pool = _Processes(self.workers, packed(make), threads, _visible(self.gpus))
        try:
            yield pool
        finally:
            pool.end()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _visible(gpus: int) -> list[str]:
    """Return the names of so many GPUs, those that this process sees."""
    visible = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return (visible or [str(number) for number in range(gpus)])[:gpus]


class _Processes(Pool):
    def __init__(self, size: int, make: bytes, threads: int, gpus: list[str]):
        self.size, self._make, self._threads, self._gpus = size, make, threads, gpus
        self._failed = 0  # starts, one after the other
        self._workers = [self._start(number) for number in range(size)]

    def _start(self, number: int) -> "_Worker":
        context = multiprocessing.get_context("spawn")  # a fork would share locks of threads that it does not have
        near_end, far_end = context.Pipe()
        gpu = self._gpus[number % len(self._gpus)] if self._gpus else None
        process = context.Process(
            target=serve, args=(far_end, self._make, self._threads, gpu), name=f"holdfast-worker-{number}", daemon=True
        )
        process.start()
        far_end.close()  # else the end of the process would not end the connection
        return _Worker(process, near_end)

    def give(self, worker: int, task: Any) -> None:
        """Send a task; a worker that has just died is found out by `wait`."""
        with suppress(OSError):
            self._workers[worker].connection.send_bytes(pickle.dumps(task))

    def wait(self) -> Outcome:
        """Return the next outcome."""
        while True:
            # the process as well: what it started may keep its end of the connection open after its death
            signs = {worker.connection: number for number, worker in enumerate(self._workers)}
            signs |= {worker.process.sentinel: number for number, worker in enumerate(self._workers)}
            for number in {signs[sign] for sign in connection.wait(list(signs))}:  # pyright: ignore[reportArgumentType]
                if (outcome := self._heard(number)) is not None:
                    return outcome

    def _heard(self, number: int) -> Outcome | None:
        """Return what a worker has to say, or that it died; None where it has become ready."""
        worker = self._workers[number]
        try:
            if not worker.connection.poll():
                raise EOFError
            message = pickle.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            return self._replace(number)
        if worker.ready:
            return Outcome(number, *message)
        if message is not None:
            raise unready("a worker process", message)
        worker.ready, self._failed = True, 0
        return None

    def _replace(self, number: int) -> Outcome:
        dead = self._workers[number]
        dead.process.join()
        code = dead.process.exitcode
        if not dead.ready:
            self._failed += 1
            if code is None or code >= 0:
                raise HoldfastError(
                    f"a worker process ended before it could work ({_cause(code)}); a script that calls Holdfast with "
                    "workers must do so under: if __name__ == '__main__'"
                )
            if self._failed >= STARTS:
                raise HoldfastError(
                    f"{STARTS} worker processes, one after the other, ended before they could work ({_cause(code)}); "
                    "take fewer workers"
                )
        dead.connection.close()
        self._workers[number] = self._start(number)
        return Outcome(number, died=_cause(code))

    def end(self) -> None:
        """End the processes, whatever they do."""
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(PATIENCE)
            worker.process.kill()  # one that does not heed the signal
            worker.process.join()


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    ready: bool = False


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended with status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    memory = ", as the system does where memory runs out" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({name}){memory}"


def serve(connection: Connection, make: bytes, threads: int, gpu: str | None) -> None:
    """Do tasks in a worker process until the connection ends.

    Args:
        connection: where tasks come from and outcomes go; first None, or why the work cannot be made.
        make: what makes the work, pickled.
        threads: of torch.
        gpu: the only GPU that this worker sees; None: as the process that started it.
    """
    # signals and threads, before torch starts any of its own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which ends it
    signal.signal(signal.SIGTERM, _end)  # so that half files are removed
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    import torch

    torch.set_num_threads(threads)
    # make the work once, and say whether that succeeded
    try:
        try:
            with foreign("code that a worker called", "run"):
                work: Work = unpacked(make)
        except Exception as error:
            connection.send_bytes(pickle.dumps(portable(error)))
            return
        connection.send_bytes(pickle.dumps(None))
        # tasks, one by one, each answered by (result, None) or (None, error)
        while True:
            task = pickle.loads(connection.recv_bytes())
            try:
                with foreign("code that a worker called", "run"):
                    outcome = pickle.dumps((work(task), None))
            except Exception as error:
                outcome = pickle.dumps((None, portable(error)))
            connection.send_bytes(outcome)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # whoever started this is gone
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what Python does at the end is not for interruption


def _end(*_: object) -> NoReturn:
    raise Ended(1)


def _end_with_parent() -> None:
    """End this process at once when the one that started it is gone, in the middle of a unit too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
