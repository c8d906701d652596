"""A sentence of a paper about its table that can be tried, and the numbers that it is about."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core import Score
from holdfast.runtime.errors import BadValue, Failed, unknown
from holdfast.storage.reproduction import UNASKED, Network

KINDS = {
    "rises": "each row (or column) named above the one before",
    "falls": "each row named below the one before",
    "above": "the first row (each of them, where the first is a list) above each other one",
    "below": "the first row (each of them) below each other one",
    "at_least": "every row named (all where none is) at least so much, in the paper's scale",
    "at_most": "every row named at most so much",
    "within": "every row named at least the one number and at most the other",
    "never": "no row named is above 0, were it by one proved case: true",
    "correlates": "the two columns named, over the rows",
}
"""Kinds of claims."""

THEIRS: Network = "authors"
TRAINED: Network = "trained"
REAL: Network = "real"
STAND_IN: Network = "stand-ins"

NETWORKS = (THEIRS, TRAINED, REAL, STAND_IN)
"""What numbers are of, the paper's own first."""

COMPARED = ("rises", "falls", "above", "below")
"""Those that compare rows in each column named, or, where none is, columns in each row named (all where none is)."""


@dataclass(frozen=True)
class Cell:
    """A number of the table.

    Attributes:
        row: name of the row.
        column: name of the column.
        score: ours, in our own unit; None where there is none.
        published: the paper's; None where it has none.
        scale: by what the paper's number is larger than ours.
        why: why ours is missing.
        of: what ours is of, the network itself and what was asked of it: cells of equal ones hold one and the same
            number, whatever their rows are called. "" where that is not known.
        network: whose network it is of.
        each: ours of each training, by seeds, where there were several; `score` is their mean.
        behind: how many images the published number is of; None where the paper does not say.
    """

    row: str
    column: str
    score: Score | None
    published: float | None = None
    scale: float = 1.0
    why: str = ""
    of: str = ""
    network: Network = STAND_IN
    each: tuple[Score, ...] = ()
    behind: int | None = None

    @property
    def value(self) -> float | None:
        """Our number, in our own unit; None where there is none."""
        return None if self.score is None else self.score.value


Cells = Mapping[tuple[str, str], Cell]
"""The cells of a table by (row, column)."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be tried.

    Attributes:
        text: the sentence, and where it stands.
        kind: see `KINDS`.
        operands: the names of rows (of columns where `columns` is empty), or the number. Where the first one is a list,
            each of its names begins a chain of its own; where all are lists, the chains are their first names, their
            second ones, and so on.
        columns: in which columns rows are compared or limited; none: columns are compared.
        rows: in which rows columns are compared; which ones are limited or correlated. All where none is named.
    """

    text: str
    kind: str
    operands: Any
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    def check(self, rows: Sequence[str], columns: Sequence[str]) -> None:
        """Refuse names that the table does not have."""
        # What is compared or limited, and where
        compared = self.kind in (*COMPARED, "correlates")
        if compared and (not isinstance(self.operands, list) or len(self.operands) < 2):
            raise BadValue(f"claim {self.text!r}: {self.kind}: expected two names or more, got {self.operands!r}")
        if not compared:
            self.limits()
        if not compared and not self.columns:
            raise BadValue(f"claim {self.text!r}: {self.kind}: expected a column, got none")
        if self.columns and (self.kind == "correlates" or (compared and self.rows)):
            raise BadValue(f"claim {self.text!r}: expected columns or rows in which it is tried, got both")
        # Names that the table has
        members = list(itertools.chain(*self.chains())) if compared else []
        of_table = {"row": rows, "column": columns}
        for kind, names in (
            ("row" if self.columns else "column", members),
            ("row", self.rows),
            ("column", self.columns),
        ):
            for name in names:
                if name not in of_table[kind]:
                    raise unknown(f"{kind} of the claim {self.text!r}", name, of_table[kind])

    def chains(self) -> list[list[str]]:
        """Return the names that are compared with each other."""
        first, *others = self.operands
        if not isinstance(first, list):
            return [self.operands]
        if not any(isinstance(names, list) for names in others):
            return [[name, *others] for name in first]
        if not all(isinstance(names, list) and len(names) == len(first) for names in others):
            raise BadValue(f"claim {self.text!r}: {self.kind}: expected lists of one length, got {self.operands!r}")
        return [list(chain) for chain in zip(*self.operands, strict=True)]

    def select_chains(self, cells: Cells) -> list[list[Cell]]:
        """Return the chains of cells that are compared: of rows in each column, or of columns in each row."""
        if self.columns:
            return [[cells[name, column] for name in names] for column in self.columns for names in self.chains()]
        return [[cells[row, name] for name in names] for row in self._rows(cells) for names in self.chains()]

    def pairs(self, chain: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
        """Return pairs of cells of which the second should be the larger one (the smaller one of falls and below)."""
        if self.kind in ("rises", "falls"):
            return list(itertools.pairwise(chain))
        return [(cell, chain[0]) for cell in chain[1:]]

    def select_limited_cells(self, cells: Cells) -> list[Cell]:
        """Return the cells that are limited."""
        return [cells[row, column] for column in self.columns for row in self._rows(cells)]

    def select_pairs(self, cells: Cells) -> list[tuple[Cell, Cell]]:
        """Return the pairs of cells, one for each row, that should go together."""
        first, second = self.operands[:2]
        return [(cells[row, first], cells[row, second]) for row in self._rows(cells)]

    def about(self, cells: Cells) -> list[Cell]:
        """Return all cells that decide the claim."""
        if self.kind == "correlates":
            return list(itertools.chain(*self.select_pairs(cells)))
        return (
            list(itertools.chain(*self.select_chains(cells)))
            if self.kind in COMPARED
            else self.select_limited_cells(cells)
        )

    def _rows(self, cells: Cells) -> tuple[str, ...]:
        """Return the rows named: where none is, all of the table that have such numbers."""
        columns = self.columns or tuple(itertools.chain(*self.chains()))
        asked = (key for key, cell in cells.items() if key[1] in columns and cell.why != UNASKED)
        return self.rows or tuple(dict.fromkeys(row for row, _ in asked))

    def limits(self) -> tuple[float, float]:
        """Return between which numbers values should lie."""
        if self.kind == "never":
            if self.operands is not True:
                raise BadValue(f"claim {self.text!r}: never: expected true, got {self.operands!r}")
            return -math.inf, 0.0
        ends = self.operands if self.kind == "within" else [self.operands]
        numbers = isinstance(ends, list) and all(isinstance(end, (int, float)) and end is not True for end in ends)
        if not numbers or len(ends) != 1 + (self.kind == "within") or ends != sorted(ends):
            expected = "[lower, upper]" if self.kind == "within" else "a number"
            raise BadValue(f"claim {self.text!r}: {self.kind}: expected {expected}, got {self.operands!r}")
        return (-math.inf if self.kind == "at_most" else ends[0]), (math.inf if self.kind == "at_least" else ends[-1])


def ends(cell: Cell) -> tuple[float, float, float]:
    """Return value, low and high in the paper's scale; without an interval, all are the value."""
    score = cell.score
    if score is None or score.value is None:
        raise Failed(f"{cell.row}, {cell.column}: {cell.why or 'undefined'}")
    low, high = (score.value if end is None else end for end in (score.low, score.high))
    return score.value * cell.scale, low * cell.scale, high * cell.scale
