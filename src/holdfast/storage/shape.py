"""Shapes of JSON data: what a value, a list or an object must be like, and sentences for what does not fit.

Entries that an object does not name are let through: a later version may add to it. What is named and there must fit.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 24
"""Levels to which entries of any shape may nest; parts of Holdfast need five."""


class Shape(ABC):
    """What JSON data must be like."""

    @abstractmethod
    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield a sentence for each entry that does not fit, "scores.value is no number"."""


@dataclass(frozen=True)
class Plain(Shape):
    """A value without entries of its own.

    Attributes:
        name: what it is, as in "is no number".
        fits: whether a value is one.
    """

    name: str
    fits: Callable[[Any], bool]

    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield a sentence where the value is something else."""
        if not self.fits(value):
            yield f"{where or 'it'} is {self.name}"


def _number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def tame(value: Any, levels: int = DEEPEST) -> bool:
    """Whether JSON data nests no deeper than so many levels, and all numbers in it can be computed with."""
    if isinstance(value, (dict, list)):
        return levels > 0 and all(
            tame(inner, levels - 1) for inner in (value.values() if isinstance(value, dict) else value)
        )
    return isinstance(value, str) or value is None or isinstance(value, bool) or _number(value)


TEXT = Plain("no text", lambda value: isinstance(value, str))
NUMBER = Plain("no number", _number)
COUNT = Plain("no count", lambda value: type(value) is int and 0 <= value < 2**63)
FLAG = Plain("neither true nor false", lambda value: isinstance(value, bool))
ANY = Plain("nested too deeply, or holds a number that no computer can compute with", tame)


def one_of(*values: str) -> Shape:
    """Return the shape of a choice."""
    return Plain(f"none of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


@dataclass(frozen=True)
class Maybe(Shape):
    """Something, or null."""

    inner: Shape

    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield what is wrong unless it is null."""
        if value is not None:
            yield from self.inner.wrong(value, where)


@dataclass(frozen=True)
class Items(Shape):
    """A list of things of one shape; of `length` of them, where that is given."""

    inner: Shape
    length: int | None = None

    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield what is wrong with each item."""
        if not isinstance(value, list):
            yield f"{where} is no list"
        elif self.length is not None and len(value) != self.length:
            yield f"{where} has {len(value)} items where {self.length} belong"
        else:
            for number, item in enumerate(value):
                yield from self.inner.wrong(item, f"{where}[{number}]")


@dataclass(frozen=True)
class Named(Shape):
    """An object whose entries have names of their own and one shape."""

    inner: Shape

    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield what is wrong with each entry."""
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for name, item in value.items():
            yield from self.inner.wrong(item, f"{where}.{name[:60]}" if where else name[:60])


@dataclass(frozen=True)
class Object(Shape):
    """An object with entries of given names.

    Attributes:
        needed: entries that must be there.
        optional: entries that may be left out.
        also: says what is wrong between entries, each of which fits.
    """

    needed: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)
    also: Callable[[Mapping[str, Any]], Iterator[str]] = lambda value: iter(())

    def wrong(self, value: Any, where: str = "") -> Iterator[str]:
        """Yield what is missing, and what is wrong with each entry."""
        if not isinstance(value, dict):
            yield f"{where or 'it'} is no object"
            return
        fits = True
        for name, shape in {**self.needed, **self.optional}.items():
            inside = f"{where}.{name}" if where else name
            if name in value:
                for sentence in shape.wrong(value[name], inside):
                    fits = False
                    yield sentence
            elif name in self.needed:
                fits = False
                yield f"{inside} is missing"
        if fits:
            yield from (f"{where}: {sentence}" if where else sentence for sentence in self.also(value))
