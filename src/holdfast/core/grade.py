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


def graded(low: float, high: float, grades: Sequence[Grade]) -> str:
    """Return what an interval of sizes is called: a word, or two where its ends differ."""
    return " to ".join(dict.fromkeys((grade(low, grades), grade(high, grades))))


def in_figures(size: float) -> str:
    """Return a size with the two digits that a sentence needs.

    Example:
        >>> [in_figures(size) for size in (0.0712, 1.04, 12.6, 181.2)]
        ['0.071', '1', '13', '181']
    """
    return f"{size:.2g}" if size < 10 else f"{size:.0f}"


def size_in_words(size: float, levels: bool) -> str:
    """Return a size in pixels of a [0, 1] image as people write it: 0.7/255, or as it is."""
    return f"{in_figures(255 * size)}/255" if levels else in_figures(size)
