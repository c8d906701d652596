"""An engine whose workers take turns in this process: fast, and open to what tests want to see."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.auditing.units import Task
from holdfast.parts.engines.shared.pool import Engine, Outcome, Pool, Work, packed, portable


@dataclass(frozen=True)
class Inline(Engine):
    """Workers that do a task when its outcome is waited for, the latest first.

    Attributes:
        workers: how many.
        mortal: whether the first worker dies of its first task, and another one takes its place.
        doing: the task that is being done, if any.
    """

    workers: int = 2
    mortal: bool = False
    doing: list[Task] = field(default_factory=list, compare=False)

    @property
    def title(self) -> str:
        return f"{self.workers} workers that take turns"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        packed(make)  # what could not be sent is refused here as well
        yield _Turns(self, make)


class _Turns(Pool):
    def __init__(self, engine: Inline, make: Callable[[], Work]):
        self.size, self._engine = engine.workers, engine
        self._make, self._mortal = make, engine.mortal
        self._works = [make() for _ in range(self.size)]
        self._given: deque[tuple[int, Task]] = deque()

    def give(self, worker: int, task: Task) -> None:
        self._given.append((worker, task))

    def wait(self) -> Outcome:
        worker, task = self._given.pop()
        if self._mortal:
            self._mortal, self._works[worker] = False, self._make()
            return Outcome(worker, died="killed by a test")
        self._engine.doing.append(task)
        try:
            return Outcome(worker, self._works[worker](task))
        except Exception as error:
            return Outcome(worker, error=portable(error))
        finally:
            self._engine.doing.pop()
