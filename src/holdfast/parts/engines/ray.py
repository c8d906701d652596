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

from holdfast.core.engine import Engine, Outcome, Pool, Work
from holdfast.parts.engines.processes import cores
from holdfast.parts.engines.shared.pool import STARTS, packed, portable, unpacked, unready
from holdfast.runtime.checked import Count, Positive
from holdfast.runtime.errors import HoldfastError, first_line
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
            raise HoldfastError(f"ray: expected a share of one GPU, or whole GPUs, for each worker, got {self.gpus}")

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return f"{self.workers} Ray worker{'s' if self.workers > 1 else ''}"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        """Start the actors.

        Raises:
            HoldfastError: Ray is missing, the cluster does not answer or has no room, or work that cannot be sent.
        """
        ray = optional("ray", "ray", "ray", "--engine ray")
        work = packed(make, ray.cloudpickle.dumps)  # sends classes of the user's script whole: actors do not import it
        started_here = not ray.is_initialized()
        try:
            if started_here:
                self._connect(ray)
            elif self.address:
                raise HoldfastError(
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
            raise HoldfastError(
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
                raise HoldfastError(
                    f"expected {self.workers * each:g} {kind}s for {self.title} of {each:g} each, the cluster has "
                    f"{available:g}; take fewer workers, or less for each"
                )


def _reach(address: str) -> None:
    """Try a connection: Ray itself tries for minutes.

    Raises:
        OSError: no connection.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHABLE).close()


@dataclass
class _Actor:
    """One actor: what it is loading, and what it is doing."""

    handle: Any
    loading: Any  # a reference; None: it is ready
    doing: Any = None
    since: float = field(default_factory=time.monotonic)


class _Actors(Pool):
    def __init__(self, ray: Any, engine: Ray, work: bytes):
        self.size, self._ray, self._engine = engine.workers, ray, engine
        self._threads = engine.threads or max(1, int(engine.cpus))
        self._kind = ray.remote(num_cpus=engine.cpus, num_gpus=engine.gpus, max_restarts=0, max_task_retries=0)(_Serve)
        self._work = ray.put(work)  # once for all of them
        self._failed = 0  # starts, one after the other
        self._actors = [self._start() for _ in range(self.size)]

    def _start(self) -> _Actor:
        handle = self._kind.remote()
        return _Actor(handle, handle.load.remote(self._work, self._threads))

    def give(self, worker: int, task: Any) -> None:
        """Send a task; it waits in the actor until that is ready."""
        actor = self._actors[worker]
        actor.doing = actor.handle.do.remote(pickle.dumps(task))

    def wait(self) -> Outcome:
        """Return the next outcome."""
        while True:
            at = {actor.loading or actor.doing: number for number, actor in enumerate(self._actors)}
            at.pop(None, None)  # nothing to do
            loading = [actor.since for actor in self._actors if actor.loading is not None]
            left = min(loading) + self._engine.patience - time.monotonic() if loading else None
            if left is not None and left <= 0:
                raise self._late()
            done, _ = self._ray.wait(list(at), num_returns=1, timeout=left)
            if done and (outcome := self._heard(at[done[0]])):
                return outcome

    def _heard(self, number: int) -> Outcome | None:
        """Return what became of an actor's task; None where it has become ready."""
        actor = self._actors[number]
        try:
            value, error = pickle.loads(self._ray.get(actor.loading or actor.doing))
        except self._ray.exceptions.RayTaskError as failure:  # Holdfast cannot be imported there
            value, error = None, portable(failure)
        except self._ray.exceptions.RayError as failure:
            return self._replace(number, failure)
        if actor.loading is None:
            actor.doing = None
            return Outcome(number, value, error)
        if error is not None:
            raise unready("a Ray worker", error)
        actor.loading, self._failed = None, 0
        return None

    def _replace(self, number: int, error: Exception) -> Outcome:
        actor, reason = self._actors[number], _cause(error)
        if actor.loading is not None:
            self._failed += 1
            if self._failed >= STARTS:
                raise HoldfastError(
                    f"{STARTS} Ray workers, one after the other, ended before they could work ({reason}); is Holdfast "
                    "installed on every node, and is there memory enough?"
                )
        with suppress(Exception):  # it may be gone, or out of reach
            self._ray.kill(actor.handle)
        self._actors[number] = self._start()
        return Outcome(number, died=reason)

    def _late(self) -> HoldfastError:
        ready = sum(actor.loading is None for actor in self._actors)
        free = self._ray.available_resources()
        return HoldfastError(
            f"expected {self.size} Ray workers to be ready within {self._engine.patience:g} s, got {ready}; free in "
            f"the cluster: {free.get('CPU', 0):g} CPUs, {free.get('GPU', 0):g} GPUs; take fewer workers; what is "
            "already stored is kept"
        )

    def end(self) -> None:
        """End the actors, whatever they do."""
        for actor in self._actors:
            with suppress(Exception):  # a cluster that is gone has ended them
                self._ray.kill(actor.handle)


def _cause(error: Exception) -> str:
    """Return how an actor ended: the line in which Ray tells it, without its advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in lines if "Worker exit" in line or "memory" in line), lines[0] if lines else "")
    return reason.partition(" Some common causes")[0].rstrip(".") or type(error).__name__


class _Serve:
    """Does tasks in an actor; what comes and goes is bytes, which Ray hands on as they are."""

    def load(self, make: bytes, threads: int) -> bytes:
        """Make the work; return nothing and the error, pickled."""
        import torch

        torch.set_num_threads(threads)
        try:
            self._work: Work = unpacked(make)
        except Exception as error:
            return pickle.dumps((None, portable(error)))
        return pickle.dumps((None, None))

    def do(self, task: bytes) -> bytes:
        """Do a task; return its value and its error, pickled."""
        try:
            return pickle.dumps((self._work(pickle.loads(task)), None))
        except Exception as error:
            return pickle.dumps((None, portable(error)))
