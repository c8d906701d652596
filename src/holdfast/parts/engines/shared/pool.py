"""A pool of workers in other processes: each first makes its work, then does tasks; one that dies is replaced."""

import pickle
from abc import abstractmethod
from typing import ClassVar

from holdfast.core.engine import Outcome, Pool
from holdfast.runtime.errors import Failed, HoldfastError, first_line

STARTS = 3
"""How many workers may end, one after the other, before they could work."""


class WorkerPool(Pool):
    """Workers in other processes, each of which runs a `Server`; how they are started and heard is the engine's.

    Args:
        size: how many there are.

    Attributes:
        workers: what they are called in errors.
        advice: what to do where none becomes ready.
    """

    workers: ClassVar[str]
    advice: ClassVar[str]

    def __init__(self, size: int):
        self.size = size
        self._failed = 0  # starts, one after the other
        self._ready: set[int] = set()  # workers that have made their work
        for number in range(size):
            self._start(number)

    @abstractmethod
    def _start(self, number: int) -> None:
        """Start a worker instead of one of that number that died."""

    @abstractmethod
    def _next(self) -> tuple[int, bytes, str]:
        """Wait for a worker; return its number, what its server returned, and how it died, "" where it did not."""

    def wait(self) -> Outcome:
        """Return the next outcome."""
        while True:
            number, message, died = self._next()
            if died:
                return self._replace(number, died)
            # The first answer of a worker is that of `load`, the others are outcomes of tasks
            value, error = pickle.loads(message)
            if number in self._ready:
                return Outcome(number, value, error)
            if isinstance(error, HoldfastError):
                raise error
            if error is not None:
                raise Failed(
                    f"expected {self.workers} to open what this process has opened, got {type(error).__name__}: "
                    f"{first_line(error)}; classes of encoders and images must be in modules that workers can import"
                )
            self._ready.add(number)
            self._failed = 0

    def _replace(self, number: int, died: str) -> Outcome:
        """Start another worker instead of a dead one, unless none becomes ready."""
        # Deaths at work do not count: another worker may do what this one could not
        self._failed += number not in self._ready
        if self._failed >= STARTS:
            raise Failed(
                f"{STARTS} {self.workers}, one after the other, ended before they could work ({died}); {self.advice}"
            )
        # The one that takes its place has to make its work again
        self._ready.discard(number)
        self._start(number)
        return Outcome(number, died=died)
