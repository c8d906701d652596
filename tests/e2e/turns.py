"""An engine whose workers take turns in this process: fast, and open to what tests want to see."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdfast.auditing.work import WorkItem
from holdfast.core.engine import Engine, Outcome, Pool, Work
from holdfast.parts.engines.shared.server import pack_work, portable, unpack_work


@dataclass(frozen=True)
class Turns(Engine):
    """Workers that do an item when its outcome is waited for, the latest first.

    Attributes:
        workers: how many.
        mortal: whether the first worker dies of its first item, and another one takes its place.
        doing: the item that is being done, if any.
    """

    workers: int = 2
    mortal: bool = False
    doing: list[WorkItem] = field(default_factory=list, compare=False)

    @property
    def title(self) -> str:
        return f"{self.workers} workers that take turns"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        yield _Turns(self, pack_work(make))  # what could not be sent is refused here as well


class _Turns(Pool):
    def __init__(self, engine: Turns, make: bytes):
        self.size, self._engine = engine.workers, engine
        self._make, self._mortal = make, engine.mortal
        self._works = [unpack_work(make) for _ in range(self.size)]
        self._given: deque[tuple[int, WorkItem]] = deque()

    def give(self, worker: int, task: WorkItem) -> None:
        self._given.append((worker, task))

    def wait(self) -> Outcome:
        worker, item = self._given.pop()
        if self._mortal:
            self._mortal, self._works[worker] = False, unpack_work(self._make)
            return Outcome(worker, died="killed by a test")
        self._engine.doing.append(item)
        try:
            return Outcome(worker, self._works[worker](item))
        except Exception as error:
            return Outcome(worker, error=portable(error))
        finally:
            self._engine.doing.pop()
