"""Engines: workers that are given one task at a time, and what becomes of the tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.runtime.checked import Checked

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
        here: whether they run on its machine, with the same packages and files.
    """

    in_process: ClassVar[bool] = False
    here: ClassVar[bool] = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @classmethod
    def begin(cls, modules: Sequence[str] = ()) -> None:
        """Begin what workers need, while this process does something else; by default nothing.

        Args:
            modules: that their work is going to import.
        """

    @abstractmethod
    def open(self, make: Callable[[], Work]) -> AbstractContextManager[Pool]:
        """Start workers, each of which makes its own work; leaving the context ends them, whatever they do.

        Raises:
            HoldfastError: a package that is missing, a cluster that does not answer, or work that cannot be sent.
        """
