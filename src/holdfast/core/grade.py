"""What a size of change is called, on an absolute scale."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grade:
    """A word for changes of some size, and why it may be said.

    Attributes:
        word: such as "fragile".
        below: changes are called so that are smaller than this and no smaller grade's, in grey levels of every pixel.
        because: what is about so large.
    """

    word: str
    below: float
    because: str


def grade(size: float, grades: Sequence[Grade]) -> str:
    """Return what a change of a size is called; "" without grades.

    Args:
        size: in grey levels of every pixel.
        grades: smallest first, the last one without an end.
    """
    return next((grade.word for grade in grades if size < grade.below), "")


def grade_interval(low: float, high: float, grades: Sequence[Grade]) -> str:
    """Return what an interval of sizes is called: a word, or two where its ends differ."""
    return " to ".join(dict.fromkeys((grade(low, grades), grade(high, grades))))
