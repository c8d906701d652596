"""This process itself, one work item after the other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from holdfast.core.engine import Engine, Outcome, Pool, Work


@dataclass(frozen=True)
class Inline(Engine):
    """No other process: what is open already is used as it is, and nothing is sent."""

    in_process: ClassVar[bool] = True
    here: ClassVar[bool] = True

    @property
    @override
    def title(self) -> str:
        return "this process"

    @contextmanager
    def open(self, make: Callable[[], Work]) -> Iterator[Pool]:
        """Make the work here."""
        yield _Here(make())


class _Here(Pool):
    """A pool of one, which does an item when its outcome is waited for."""

    size = 1

    def __init__(self, work: Work):
        self._work, self._item = work, None

    def give(self, worker: int, task: Any) -> None:
        """Keep an item until `wait`."""
        self._item = task

    def wait(self) -> Outcome:
        """Do the item; what it raises is an outcome, as in other processes, but Ctrl-C ends both."""
        # Ctrl-C is no Exception, so it passes
        try:
            return Outcome(0, self._work(self._item))
        except Exception as error:
            return Outcome(0, error=error)
