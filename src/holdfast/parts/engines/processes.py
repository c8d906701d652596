"""Worker processes on this machine."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar, NoReturn

from typing_extensions import override

from holdfast.core.engine import Engine, Pool, Work
from holdfast.parts.engines.shared.fork_server import Surroundings, begin, send_prints, surroundings, take_over
from holdfast.parts.engines.shared.fork_server import context as fork_context
from holdfast.parts.engines.shared.pool import WorkerPool
from holdfast.parts.engines.shared.server import Server, pack_work
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue, Failed
from holdfast.runtime.foreign import Ended

VISIBLE = "CUDA_VISIBLE_DEVICES"
EACH, AT_LEAST = 4, 16
"""Workers for each core, at most; and how many there may be however few cores there are."""

PATIENCE = 5.0
"""Seconds in which a worker must end when it is told to."""


@dataclass(frozen=True)
class Processes(Engine):
    """Processes of their own; one that dies is replaced.

    Attributes:
        workers: how many.
        threads: of torch in each worker; 0: the cores of the machine divided among them.
        gpus: how many GPUs the workers share, each of which sees one only; 0: all see what this process sees.
    """

    here: ClassVar[bool] = True

    workers: Count = 2
    threads: int = 0
    gpus: int = 0

    def __post_init__(self) -> None:
        # A slip such as 1000 would bring the machine down before anything is computed
        if self.workers > (most := max(AT_LEAST, EACH * cores())):
            raise BadValue(
                f"processes: expected at most {most} workers on {cores()} cores, got {self.workers}; more only wait "
                f"for each other: --workers {cores()}"
            )

    @property
    @override
    def title(self) -> str:
        return f"{self.workers} worker process{'es' if self.workers > 1 else ''}"

    @classmethod
    def begin(cls, modules: Sequence[str] = ()) -> None:
        """Start the server that workers are forked from."""
        begin(modules)

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        """Start the processes.

        Raises:
            HoldfastError: work that cannot be sent to other processes.
        """
        # Each worker with all cores would make them wait for each other
        threads = self.threads or max(1, cores() // self.workers)
        pool = _Processes(self.workers, pack_work(make), threads, _visible(self.gpus))
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


class _Processes(WorkerPool):
    workers = "worker processes"
    advice = "take fewer workers"

    def __init__(self, size: int, make: bytes, threads: int, gpus: list[str]):
        self._make, self._threads, self._gpus = make, threads, gpus
        self._processes: dict[int, BaseProcess] = {}
        self._connections: dict[int, Connection] = {}
        super().__init__(size)

    def _start(self, number: int) -> None:
        begin()
        context, given = fork_context(), surroundings()
        near_end, far_end = context.Pipe()
        # In turn, so that GPUs are shared evenly, and a replacement gets the one that is free
        gpu = self._gpus[number % len(self._gpus)] if self._gpus else None
        process = context.Process(
            target=serve,
            args=(far_end, self._make, self._threads, gpu, given),
            name=f"holdfast-worker-{number}",
            daemon=True,
        )
        process.start()
        far_end.close()  # else the end of the process would not end the connection
        send_prints(near_end, given.prints, process.pid)
        self._connections[number], self._processes[number] = near_end, process

    def give(self, worker: int, task: Any) -> None:
        """Send a task; a worker that has just died is noticed by `wait`."""
        with suppress(OSError):
            self._connections[worker].send_bytes(pickle.dumps(task))

    def _next(self) -> tuple[int, bytes, str]:
        # The process as well: what it started may keep its end of the connection open after its death
        signs: dict[Any, int] = {connection: number for number, connection in self._connections.items()}
        signs |= {process.sentinel: number for number, process in self._processes.items()}
        number = signs[wait(list(signs))[0]]
        process, connection = self._processes[number], self._connections[number]
        with suppress(EOFError, OSError):
            if connection.poll():
                return number, connection.recv_bytes(), ""
        process.join()
        connection.close()
        died = _cause(process.exitcode)
        # Not killed, and never ready: what a script without a main guard does when it is imported again
        if number not in self._ready and (process.exitcode is None or process.exitcode >= 0):
            raise Failed(
                f"a worker process ended before it could work ({died}); a script that calls Holdfast with workers must "
                "do so under: if __name__ == '__main__'"
            )
        return number, b"", died

    def end(self) -> None:
        """End the processes, whatever they do."""
        for number, process in self._processes.items():
            self._connections[number].close()
            process.terminate()
        for process in self._processes.values():
            process.join(PATIENCE)
            process.kill()  # one that does not heed the signal
            process.join()


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended with status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    memory = ", as the system does where memory runs out" if -code == signal.SIGKILL else ""
    return f"killed by signal {-code} ({name}){memory}"


def serve(connection: Connection, make: bytes, threads: int, gpu: str | None, given: Surroundings) -> None:
    """Do tasks in a worker process until the connection ends.

    Args:
        connection: where tasks come from and answers go, after that of `Server.load`.
        make: what makes the work, see `pack_work`.
        threads: of torch.
        gpu: the only GPU that this worker sees; None: as the process that started it.
        given: what it takes over from that process.
    """
    # Signals, surroundings and the GPU, before torch looks for one
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which ends it
    signal.signal(signal.SIGTERM, _end)  # so that half files are removed
    threading.Thread(target=_end_with_parent, daemon=True).start()
    take_over(connection, given)
    if gpu is not None:
        os.environ[VISIBLE] = gpu

    # Make the work, then do tasks one by one
    server = Server()
    try:
        connection.send_bytes(server.load(make, threads))
        while True:
            connection.send_bytes(server.do(connection.recv_bytes()))
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
