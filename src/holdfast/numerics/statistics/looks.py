"""Intervals that hold at every look: who stops when an interval is narrow enough has looked at it many times."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LOOK: ContextVar[int] = ContextVar("look", default=0)


@contextmanager
def looking(number: int) -> Iterator[None]:
    """Make the intervals within those of the k-th look, such that all looks together keep the level; 0: the only look.

    The k-th has the level 1 - α / (k (k + 1)). Since Σ 1 / (k (k + 1)) = 1, the intervals of all looks hold the truth
    at once with probability 1 - α or more, however many there are and whatever ends them (the union bound).

    Args:
        number: k, from 1; or 0.

    Example:
        >>> with looking(2):
        ...     round(level(0.95), 4)
        0.9917
    """
    token = _LOOK.set(number)
    try:
        yield
    finally:
        _LOOK.reset(token)


def level(confidence: float) -> float:
    """Return the level that an interval is given at this look, so that all looks together have this confidence.

    Args:
        confidence: of all looks together.

    Example:
        >>> level(0.95)  # the only look
        0.95
    """
    number = _LOOK.get()
    return confidence if number == 0 else 1 - (1 - confidence) / (number * (number + 1))
