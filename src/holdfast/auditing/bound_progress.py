"""Bound propagations in progress: a long one moves the bar while it lasts, and says how long the rest takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.core.encoder import BOUND
from holdfast.numerics.bounds.effort import Standing, listening
from holdfast.runtime.durations import format_duration
from holdfast.runtime.listener import Listener

PATIENCE = 2.0
"""Seconds that a propagation lasts, or will, before anything is said of it."""

OFTEN = 0.5
"""Seconds between two sentences."""

MEASURED = 0.05
"""Share of a propagation that must be done before its own pace tells the rest."""


def estimate_remaining(standing: Standing, lasted: float) -> float:
    """Return how many seconds a propagation still takes: by its pace so far, or, early on, as foretold.

    Args:
        standing: how far it is.
        lasted: seconds since it began.

    Example:
        >>> early, late = (Standing(done=done, total=40, images=1) for done in (0, 10))
        >>> estimate_remaining(early, 0.1), estimate_remaining(late, 20)
        (40, 60.0)
    """
    share = standing.share
    return lasted * (1 - share) / share if share > MEASURED else standing.total - standing.done


class BoundProgress:
    """Tells a listener of bound propagations that last.

    Args:
        listener: who is told.
        clock: gives the time in seconds.
    """

    def __init__(self, listener: Listener, clock: Callable[[], float] = time.monotonic):
        self._listener, self._clock = listener, clock
        self._told = 0  # work that the listener heard of before it was counted
        self._before, self._began, self._spoke, self._title = 0, 0.0, 0.0, ""

    def advance(self, work: int) -> None:
        """Hear how much work is counted, in encoder passes, and tell of it what was not told before."""
        known = min(self._told, max(0, work))
        self._told -= known
        self._before = max(0, self._before - known)
        if work != known:
            self._listener.advance(work - known)

    @contextmanager
    def telling(self, title: str) -> Iterator[None]:
        """Tell of the propagations that begin here, under a title; what was told and never counted is taken back."""
        self._title = title
        try:
            with listening(self._hear):
                yield
        finally:
            if self._told:
                self._listener.advance(-self._told)
            self._told = self._before = 0

    def _hear(self, standing: Standing) -> None:
        now = self._clock()
        if not standing.total:  # one begins
            self._began, self._before = now, self._told
        # the bar
        told = self._before + int(BOUND * standing.images * standing.share)
        if told > self._told:
            self._listener.advance(told - self._told)
            self._told = told
        # and in words
        lasted = now - self._began
        rest = estimate_remaining(standing, lasted)
        if max(lasted, rest) >= PATIENCE and now - self._spoke >= OFTEN:
            self._spoke = now
            said = f"{standing.share:.0%} of the bounds inside, about {format_duration(rest)} left"
            self._listener.stage(f"{self._title}: {said if standing.total else 'finding out how long bounds take'}")
