"""What an engine offers: workers that are given one task at a time, and what becomes of the tasks."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.core import registry
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import HoldfastError, first_line

STARTS = 3
"""How many workers may end, one after the other, before they could work."""

Work = Callable[[Any], Any]
"""Does a task and returns what came out; lives in a worker, and keeps there what tasks have in common."""


@dataclass(frozen=True)
class Outcome:
    """What became of the task that a worker was given.

    Attributes:
        worker: its number.
        value: what the work returned.
        error: what it raised; None where it did not.
        died: how the worker died, which may have had no task; "" where it did not. Another one has taken its place.
    """

    worker: int
    value: Any = None
    error: Exception | None = None
    died: str = ""


class Pool(ABC):
    """Workers at work.

    Attributes:
        size: how many there are; they are numbered from 0.
    """

    size: int

    @abstractmethod
    def give(self, worker: int, task: Any) -> None:
        """Give a task to a worker that has none."""

    @abstractmethod
    def wait(self) -> Outcome:
        """Return what became of a task, as soon as one has ended.

        Raises:
            HoldfastError: workers that cannot be started.
        """


class Engine(metaclass=Checked):
    """Where tasks run; a frozen dataclass.

    Attributes:
        in_process: whether they run in the process that opens it, on its devices.
    """

    in_process: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def open(self, make: Callable[[], Work]) -> AbstractContextManager[Pool]:
        """Start workers, each of which makes its own work; leaving the context ends them, whatever they do.

        Raises:
            HoldfastError: a package that is missing, a cluster that does not answer, or work that cannot be sent.
        """


def packed(make: Callable[[], Work], dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Return what makes a worker's work as bytes, and which files of parts it must run before; see `unpacked`.

    Raises:
        HoldfastError: something of it cannot be sent to another process.
    """
    try:
        return pickle.dumps((registry.paths(), dumps(make)))
    except Exception as error:  # whatever a user's module raises
        raise HoldfastError(
            f"expected encoders and images that other processes can open, got some that cannot be sent to them "
            f"({first_line(error)}); name them by specs (module:PACKAGE.FUNCTION, a folder), or leave --workers out"
        ) from error


def portable(error: Exception) -> Exception:
    """Return an error that can be sent to another process and says the same."""
    try:
        again = pickle.loads(pickle.dumps(error))
        return error if str(again) == str(error) else HoldfastError(str(error))
    except Exception:
        return HoldfastError(f"{type(error).__name__}: {first_line(error)}")


def unpacked(work: bytes) -> Work:
    """Return a worker's work, made in its process, which knows the user's own parts first."""
    paths, make = pickle.loads(work)
    for path in paths:
        registry.load(path)
    return pickle.loads(make)()


def unready(who: str, error: Exception) -> HoldfastError:
    """Return the error of a worker that cannot make its work."""
    if isinstance(error, HoldfastError):
        return error
    said = f"{type(error).__name__}: {first_line(error)}"
    return HoldfastError(
        f"expected {who} to open what this process has opened, got {said}; classes of encoders and images must be in "
        "modules that workers can import"
    )
