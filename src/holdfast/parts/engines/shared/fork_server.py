"""The server that worker processes are forked from: it imports once, and while others work, what all of them need.

A worker is forked from a process of its own that computes nothing, so it shares no locks of threads. It would have the
server's surroundings, which may be those of an earlier audit: its environment and where its prints go are sent.
"""

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

SERVED = sys.platform.startswith("linux") and not sys.flags.ignore_environment
"""Whether there is a server; elsewhere, system libraries do not survive a fork, and each worker imports for itself.

Python before 3.13 tells it by the environment alone where modules are.
"""

HEAVY = ("torch", "scipy.stats", "holdfast.storage.run_folder")
"""What takes workers longest to import."""

SHARED = ("holdfast.auditing.", "holdfast.parts.", "holdfast.sources.", "holdfast.numerics.")
"""What the server imports too, where this process has when the server starts."""


def begin(modules: Sequence[str] = ()) -> None:
    """Start the server, unless it runs, and let it import some modules; it ends with this process."""
    if not SERVED:
        return
    own = sorted(name for name in sys.modules if name.startswith(SHARED))
    forkserver.set_forkserver_preload([*HEAVY, *modules, *own])
    # The server reads where modules are when it starts, from the environment, which is put back at once
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


def context() -> Any:
    """Return how processes are started."""
    return multiprocessing.get_context("forkserver" if SERVED else "spawn")


class Surroundings(NamedTuple):
    """What a worker takes over from the process that starts it: the environment, and open files of prints."""

    environment: Mapping[str, str]
    prints: Sequence[int]


def surroundings() -> Surroundings:
    """Return those of this process."""
    # Standard output and error: a child of the server would have those of the server
    return Surroundings(dict(os.environ), [number for number in (1, 2) if SERVED and _is_open(number)])


def send_prints(connection: Connection, prints: Sequence[int], process: int) -> None:
    """Send open files to a process, see `take_over`; one that has just died gets none."""
    with suppress(OSError):
        # In the order in which `take_over` receives them
        for number in prints:
            send_handle(connection, number, process)


def take_over(connection: Connection, given: Surroundings) -> None:
    """Take over the environment, and the open files that `send_prints` sends."""
    # What the server has and this process has not must go, too
    os.environ.clear()
    os.environ.update(given.environment)
    for number in given.prints:
        # The file takes the number that prints go to; the number it came under is not needed any more
        handle = recv_handle(connection)
        os.dup2(handle, number)
        os.close(handle)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
