"""Actors on a Ray cluster, or on a Ray that is started here."""

import logging
import math
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from holdfast.core.engine import Engine, Pool, Work
from holdfast.parts.engines.processes import cores
from holdfast.parts.engines.shared.pool import WorkerPool
from holdfast.parts.engines.shared.server import Server, pack_work, portable
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import BadValue, Conflict, Failed, NotEnough, first_line
from holdfast.runtime.optional import optional

REACHABLE = 10.0
"""Seconds in which a cluster must take a connection."""


@dataclass(frozen=True)
class Ray(Engine):
    """Ray actors, each of which keeps what it has loaded; one that dies is replaced.

    Every node must have Holdfast installed and see the run folder and the images: a file system that all share, or
    URLs. A Ray that this process is connected to already is used, and left running.

    Attributes:
        workers: how many actors.
        address: of a cluster, HOST:PORT, ray://HOST:PORT or auto; "": Ray is started here, and ended with the audit.
        gpus: of each actor, 0.5 for two on one GPU.
        cpus: of each actor, as Ray counts them.
        threads: of torch in each actor; 0: as many as its CPUs.
        patience: seconds in which an actor must be ready for work.
    """

    workers: Count = 2
    address: str = ""
    gpus: float = 0.0
    cpus: Positive = 1.0
    threads: int = 0
    patience: Positive = 300.0

    def __post_init__(self) -> None:
        if self.gpus > 1 and self.gpus != int(self.gpus):  # Ray's own rule
            raise BadValue(f"ray: expected a share of one GPU, or whole GPUs, for each worker, got {self.gpus}")

    @property
    @override
    def title(self) -> str:
        return f"{self.workers} Ray worker{'s' if self.workers > 1 else ''}"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        """Start the actors.

        Raises:
            HoldfastError: Ray is missing, the cluster does not answer or has no room, or work that cannot be sent.
        """
        ray = optional("ray", "ray", "ray", "--engine ray")
        work = pack_work(
            make, ray.cloudpickle.dumps
        )  # sends classes of the user's script whole: actors do not import it
        started_here = not ray.is_initialized()
        try:
            if started_here:
                self._connect(ray)
            elif self.address:
                raise Conflict(
                    f"ray: expected no address where this process is connected to Ray already, got {self.address!r}; "
                    "leave it out, or call ray.shutdown() first"
                )
            self._check_room(ray)
            pool = _Actors(ray, self, work)
            try:
                yield pool
            finally:
                pool.end()
        finally:
            if started_here:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self.address:
                _reach(self.address)
                ray.init(address=self.address, **quiet)
                return
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody asked for reports to Ray's makers
            # "local", for an empty address would join what runs here or what RAY_ADDRESS names
            ray.init(address="local", num_cpus=self._cpus_here(), include_dashboard=False, **quiet)
        except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
            place = f"at {self.address!r}" if self.address else "on this machine"
            raise Failed(
                f"expected Ray {place} to answer, got: {first_line(error)}; is it running (ray status), of this "
                "version, and is its address HOST:PORT, ray://HOST:PORT or auto?"
            ) from error

    def _cpus_here(self) -> int:
        return max(cores(), math.ceil(self.workers * self.cpus))  # asked for more than there are: they share

    def _check_room(self, ray: Any) -> None:
        """Refuse what no cluster of this size can hold, which Ray would wait for without end."""
        for kind, each in (("GPU", self.gpus), ("CPU", self.cpus)):
            available = float(ray.cluster_resources().get(kind, 0))
            if self.workers * each > available + 1e-9:
                raise NotEnough(
                    f"expected {self.workers * each:g} {kind}s for {self.title} of {each:g} each, the cluster has "
                    f"{available:g}; take fewer workers, or less for each"
                )


def _reach(address: str) -> None:
    """Try a connection: Ray itself tries for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHABLE).close()


@dataclass
class _Actor:
    """An actor: references to the task that it does, the first of which is to make its work."""

    handle: Any
    tasks: list[Any]
    since: float = field(default_factory=time.monotonic)


class _Actors(WorkerPool):
    workers = "Ray workers"
    advice = "is Holdfast installed on every node, and is there memory enough?"

    def __init__(self, ray: Any, engine: Ray, work: bytes):
        self._ray, self._engine = ray, engine
        self._threads = engine.threads or max(1, int(engine.cpus))
        # No restarts by Ray: a restarted actor would have lost its work, and the pool replaces it anyway
        self._kind = ray.remote(num_cpus=engine.cpus, num_gpus=engine.gpus, max_restarts=0, max_task_retries=0)(Server)
        self._work = ray.put(work)  # once for all of them
        self._actors: dict[int, _Actor] = {}
        super().__init__(engine.workers)

    def _start(self, number: int) -> None:
        handle = self._kind.remote()
        self._actors[number] = _Actor(handle, [handle.load.remote(self._work, self._threads)])

    def give(self, worker: int, task: Any) -> None:
        """Send a task; it waits in the actor until that is ready."""
        actor = self._actors[worker]
        actor.tasks.append(actor.handle.do.remote(pickle.dumps(task)))

    def _next(self) -> tuple[int, bytes, str]:
        # Of each actor the oldest task, for it does them one after the other
        running = {actor.tasks[0]: number for number, actor in self._actors.items() if actor.tasks}
        # Patience is for getting ready alone; a task may take as long as it takes
        starts = [actor.since for number, actor in self._actors.items() if number not in self._ready]
        left = max(0.0, min(starts) + self._engine.patience - time.monotonic()) if starts else None
        done, _ = self._ray.wait(list(running), num_returns=1, timeout=left)
        if not done:
            raise self._late()
        actor = self._actors[number := running[done[0]]]
        try:
            return number, self._ray.get(actor.tasks.pop(0)), ""
        except self._ray.exceptions.RayTaskError as failure:  # Holdfast cannot be imported there
            return number, pickle.dumps((None, portable(failure))), ""
        except self._ray.exceptions.RayError as failure:
            with suppress(Exception):  # it may be gone, or out of reach
                self._ray.kill(actor.handle)
            return number, b"", _cause(failure)

    def _late(self) -> NotEnough:
        free = self._ray.available_resources()
        return NotEnough(
            f"expected {self.size} Ray workers to be ready within {self._engine.patience:g} s, got "
            f"{len(self._ready)}; free in the cluster: {free.get('CPU', 0):g} CPUs, {free.get('GPU', 0):g} GPUs; take "
            "fewer workers; what is already stored is kept"
        )

    def end(self) -> None:
        """End the actors, whatever they do."""
        for actor in self._actors.values():
            with suppress(Exception):  # a cluster that is gone has ended them
                self._ray.kill(actor.handle)


def _cause(error: Exception) -> str:
    """Return how an actor ended: the line in which Ray tells it, without its advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in lines if "Worker exit" in line or "memory" in line), lines[0] if lines else "")
    return reason.partition(" Some common causes")[0].rstrip(".") or type(error).__name__
