"""Threads that read images; whoever waits for them lets them call code of others meanwhile."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from holdfast.runtime.foreign import TURN

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """Some threads that do what they are given, in order.

    Args:
        count: how many.
    """

    def __init__(self, count: int):
        self.count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="holdfast-images")

    def submit(self, function: Callable[[T], R], item: T) -> Future[R]:
        """Return the promise of what a function makes of an item."""
        return self._pool.submit(function, item)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield what a function makes of each item; all are begun at once."""
        # A list, so that all are begun
        return map(result, [self.submit(function, item) for item in items])


def result(future: Future[R]) -> R:
    """Wait for a promise, and return what it is of."""
    # The thread may hold the turn that the others need to finish
    with TURN.release():
        return future.result()
