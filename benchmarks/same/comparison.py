"""A formula of a paper as Holdfast computes it, next to the authors' code or to an independent computation."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.same.theirs import FILE, SOURCES
from holdfast.core import Mismatch

Numbers = Tensor | np.ndarray | Sequence[float] | float


@dataclass(frozen=True)
class Published:
    """What the authors' code gave for the same input, as theirs.json holds it.

    Attributes:
        repository: a key of `SOURCES`.
        output: a key of what it gave; of several levels, joined by "/". Several of them are joined by "|".
        code: the function or script that gave it.
        change: makes of these outputs what Holdfast means; what is done and why stands in the comparison.
    """

    repository: str
    output: str
    code: str
    change: Callable[..., Any] = lambda value: value

    def __call__(self) -> np.ndarray:
        """Return the numbers."""
        return np.asarray(self.change(*(self._read(name) for name in self.output.split("|"))), float)

    def _read(self, name: str) -> np.ndarray:
        value: Any = stored()[self.repository]["outputs"]
        for key in name.split("/"):
            value = value[key]
        return np.asarray(value)

    @property
    def title(self) -> str:
        """Where they come from, for a table."""
        return f"**the authors' code**, {self.code}"


@dataclass(frozen=True)
class ByHand:
    """The formula written out from the paper's text with NumPy and SciPy; see the folder `by_hand`.

    Attributes:
        compute: gives the numbers; nothing of Holdfast has a part in it.
        way: how, in a few words.
    """

    compute: Callable[[], Numbers]
    way: str

    def __call__(self) -> np.ndarray:
        """Return the numbers."""
        return array(self.compute())

    @property
    def title(self) -> str:
        """What it is, for a table."""
        return f"independent computation: {self.way}"


@dataclass(frozen=True)
class Comparison:
    """Two computations of one formula.

    Attributes:
        formula: where it stands in the paper, and what it is.
        part: what of Holdfast computes it.
        theirs: the other side.
        on: the input, and what one must know of it.
        limit: the largest difference that counts as none.
        ours: gives Holdfast's numbers.
    """

    formula: str
    part: str
    theirs: Published | ByHand
    on: str
    limit: float
    ours: Callable[[], Numbers]

    def run(self) -> "Difference":
        """Compute both sides.

        Raises:
            Mismatch: sides of different sizes, or without a number.
        """
        ours, theirs = array(self.ours()).ravel(), self.theirs().ravel()
        if ours.size != theirs.size or not ours.size:
            raise Mismatch(f"{self.formula}: expected as many numbers on both sides, got {ours.size} and {theirs.size}")
        scale = float(np.abs(theirs).max()) or 1.0
        largest = float(np.abs(ours - theirs).max()) / scale
        return Difference(self, ours.size, math.inf if math.isnan(largest) else largest)


@dataclass(frozen=True)
class Difference:
    """What a comparison found.

    Attributes:
        comparison: which one.
        count: how many numbers were compared.
        largest: their largest difference, as a share of the largest of the other side's numbers.
    """

    comparison: Comparison
    count: int
    largest: float

    @property
    def is_same(self) -> bool:
        """Whether it is within its limit; what is not a number never is."""
        return self.largest <= self.comparison.limit


def array(value: Numbers) -> np.ndarray:
    """Return numbers in float64."""
    return np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value, np.float64)


@cache
def stored() -> Mapping[str, Any]:
    """Return what the authors' code gave, with the commit of each repository."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def sources() -> list[tuple[str, str, str, str]]:
    """Return (name, address, commit, licence) of each repository whose output is stored."""
    return [(name, SOURCES[name][0], stored()[name]["commit"], SOURCES[name][1]) for name in stored()]
