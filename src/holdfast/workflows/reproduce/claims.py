"""The claims of a paper's text about its table, judged by ours: holds, fails or not shown."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.core import HoldfastError, Score
from holdfast.numerics.statistics.correlations import pearson
from holdfast.numerics.statistics.levels import p_value, reach
from holdfast.runtime.errors import unknown

HOLDS, FAILS, NOT_SHOWN = "holds", "fails", "not shown"

KINDS = {
    "rises": "each row (or column) named above the one before",
    "falls": "each row named below the one before",
    "above": "the first row (each of them, where the first is a list) above each other one",
    "below": "the first row (each of them) below each other one",
    "at_least": "every row named (all where none is) at least so much, in the paper's scale",
    "at_most": "every row named at most so much",
    "within": "every row named at least the one number and at most the other",
    "agrees": "every row named as published, up to so much",
    "correlates": "the two columns named, over the rows",
}
"""Kinds of claims."""

COMPARED = ("rises", "falls", "above", "below")
"""Those that compare rows in each column named, or, where none is, columns in each row named (all where none is)."""

LEVEL = 0.05

SHOWN = 8
"""Comparisons that are listed one by one; of more, those that are not as claimed."""


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
    """

    row: str
    column: str
    score: Score | None
    published: float | None = None
    scale: float = 1.0
    why: str = ""
    of: str = ""

    @property
    def value(self) -> float | None:
        """Our number, in our own unit; None where there is none."""
        return None if self.score is None else self.score.value


Correlation = Callable[[Cell, Cell], float]
"""How strongly two cells' estimates go together, because they are about the same images; 0 where nothing tells."""


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
        """Refuse names that the table does not have.

        Raises:
            HoldfastError: such a name, or a claim without what its kind needs.
        """
        # What is compared or limited, and where
        compared = self.kind in (*COMPARED, "correlates")
        if compared and (not isinstance(self.operands, list) or len(self.operands) < 2):
            raise HoldfastError(f"claim {self.text!r}: {self.kind}: expected two names or more, got {self.operands!r}")
        if not compared:
            self.limits()
        if not compared and not self.columns:
            raise HoldfastError(f"claim {self.text!r}: {self.kind}: expected a column, got none")
        if self.columns and (self.kind == "correlates" or (compared and self.rows)):
            raise HoldfastError(f"claim {self.text!r}: expected columns or rows in which it is tried, got both")
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
        """Return the names that are compared with each other.

        Raises:
            HoldfastError: lists of different lengths.
        """
        first, *others = self.operands
        if not isinstance(first, list):
            return [self.operands]
        if not any(isinstance(names, list) for names in others):
            return [[name, *others] for name in first]
        if not all(isinstance(names, list) and len(names) == len(first) for names in others):
            raise HoldfastError(
                f"claim {self.text!r}: {self.kind}: expected lists of one length, got {self.operands!r}"
            )
        return [list(chain) for chain in zip(*self.operands, strict=True)]

    def limits(self) -> tuple[float, float]:
        """Return between which numbers values should lie.

        Raises:
            HoldfastError: something else than the number, or two numbers in order, that the kind takes.
        """
        ends = self.operands if self.kind == "within" else [self.operands]
        numbers = isinstance(ends, list) and all(isinstance(end, (int, float)) and end is not True for end in ends)
        if not numbers or len(ends) != 1 + (self.kind == "within") or ends != sorted(ends):
            expected = "[lower, upper]" if self.kind == "within" else "a number"
            raise HoldfastError(f"claim {self.text!r}: {self.kind}: expected {expected}, got {self.operands!r}")
        return (-math.inf if self.kind == "at_most" else ends[0]), (math.inf if self.kind == "at_least" else ends[-1])


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim in our table.

    Attributes:
        text: the claim.
        outcome: "holds", "fails" or "not shown".
        why: the numbers behind it.
    """

    text: str
    outcome: str
    why: str


def judge(claim: Claim, cells: dict[tuple[str, str], Cell], correlation: Correlation) -> Verdict:
    """Return the verdict of our table on a claim.

    A chain of comparisons holds where each one's 95 % interval excludes zero on the right side (which needs no
    correction, for all of them must), and fails where one is on the wrong side with p at most 0.05 / their number. A
    limit holds where each interval lies on its side, and fails where one lies on the other. Numbers agree with the
    published ones where all are as near as claimed, and do not where one is not and its interval leaves the published
    one out too. All else is not shown, and what a sample was too small to give an interval neither. Where numbers are
    missing, the others can still fail the claim.

    Args:
        claim: the claim.
        cells: by (row, column).
        correlation: of two cells' estimates.
    """
    if claim.kind == "correlates":
        return _correlates(claim, cells)
    if claim.kind not in COMPARED:
        limited = _named(claim, cells)
        return _without(_missing(limited), _limited(claim, _present(limited)))
    chains = _chains(claim, cells) or [
        [cells[row, name] for name in names] for row in _rows(claim, cells) for names in claim.chains()
    ]
    pairs = [pair for chain in chains for pair in _pairs(chain, claim.kind) if not _missing(pair)]
    # One network in two rows shows nothing of their order
    twins = [pair for pair in pairs if pair[0].of and pair[0].of == pair[1].of]
    titles = [" and ".join(f"{cell.row}, {cell.column}" for cell in pair) for pair in twins]
    lost = [
        _missing([cell for chain in chains for cell in chain]),
        *(f"{t}: one network stands for both" for t in titles),
    ]
    verdict = _compared(claim, [pair for pair in pairs if pair not in twins], correlation)
    return _without("; ".join(filter(None, lost)), verdict)


def judged(claims: Sequence[Claim], cells: dict[tuple[str, str], Cell], correlation: Correlation) -> list[Verdict]:
    """Return the verdict on each claim; see `judge`.

    What one network shows that stands for two is shown once: a claim about the same numbers as one before is not shown.
    """
    verdicts: list[Verdict] = []
    before: dict[object, str] = {}
    for claim in claims:
        verdict, key = judge(claim, cells, correlation), _evidence(claim, cells)
        if key is not None and key in before and verdict.outcome != NOT_SHOWN:
            why = f"one network stands for those of this claim and of “{before[key]}”; {verdict.why}"
            verdict = Verdict(claim.text, NOT_SHOWN, why)
        elif key is not None:
            before[key] = claim.text
        verdicts.append(verdict)
    return verdicts


def _evidence(claim: Claim, cells: dict[tuple[str, str], Cell]) -> object:
    """Return the numbers that decide a claim, whatever their rows are called; None where not all are identified."""
    if claim.kind in ("correlates", "agrees"):
        return None
    if claim.kind in COMPARED:
        limits, chains = None, _chains(claim, cells)
    else:
        limits, chains = claim.limits(), [[cell] for cell in _present(_named(claim, cells))]
    numbers = frozenset(tuple(cell.of for cell in chain) for chain in chains)
    return (claim.kind, limits, numbers) if numbers and all(map(all, numbers)) else None


def _rows(claim: Claim, cells: dict[tuple[str, str], Cell]) -> tuple[str, ...]:
    """Return the rows of a claim: all of the table where it names none."""
    return claim.rows or tuple(dict.fromkeys(row for row, _ in cells))


def _chains(claim: Claim, cells: dict[tuple[str, str], Cell]) -> list[list[Cell]]:
    """Return the chains of rows that a claim compares in its columns; none where it compares columns."""
    return [[cells[name, column] for name in names] for column in claim.columns for names in claim.chains()]


def _named(claim: Claim, cells: dict[tuple[str, str], Cell]) -> list[Cell]:
    """Return the cells that a claim limits."""
    named = [cells[row, column] for column in claim.columns for row in _rows(claim, cells)]
    return [cell for cell in named if claim.kind != "agrees" or cell.published is not None]


def _present(named: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in named if not _missing([cell])]


def _without(lost: str, verdict: Verdict) -> Verdict:
    """Return a verdict on a part of what is claimed: one part may fail a claim, but all are needed to show it."""
    if not lost:
        return verdict
    why = f"{verdict.why}; {lost}" if verdict.why else lost
    return Verdict(verdict.text, NOT_SHOWN if verdict.outcome == HOLDS else verdict.outcome, why)


def _pairs(chain: Sequence[Cell], kind: str) -> list[tuple[Cell, Cell]]:
    """Return pairs of cells of which the second should be the larger one (the smaller one of falls and below)."""
    return list(itertools.pairwise(chain)) if kind in ("rises", "falls") else [(cell, chain[0]) for cell in chain[1:]]


def _missing(cells: Sequence[Cell]) -> str:
    """Return the cells without a number, and why; "" where all have one."""
    lost: dict[str, list[str]] = {}
    for cell in cells:
        if cell.value is None:
            lost.setdefault(cell.why or "undefined", []).append(f"{cell.row}, {cell.column}")
    return "; ".join(f"{'; '.join(dict.fromkeys(cells))}: {why}" for why, cells in lost.items())


def ends(cell: Cell) -> tuple[float, float, float]:
    """Return value, low and high in the paper's scale; without an interval, all are the value.

    Raises:
        HoldfastError: a cell without a number.
    """
    score = cell.score
    if score is None or score.value is None:
        raise HoldfastError(f"{cell.row}, {cell.column}: {cell.why or 'undefined'}")
    low = score.value if score.low is None else score.low
    high = score.value if score.high is None else score.high
    return score.value * cell.scale, low * cell.scale, high * cell.scale


def _compared(claim: Claim, pairs: Sequence[tuple[Cell, Cell]], correlation: Correlation) -> Verdict:
    sign = 1 if claim.kind in ("rises", "above") else -1
    lines, open_lines, fails = [], [], False
    for lower, upper in pairs:
        gap, p = sign * (ends(upper)[0] - ends(lower)[0]), _p(lower, upper, correlation(lower, upper))
        lines.append(f"{_text(upper)} against {_text(lower)}" + ("" if p is None else f", p {p:.2g}"))
        if not (gap > 0 and p is not None and p <= LEVEL):
            open_lines.append(lines[-1])
        fails |= gap < 0 and p is not None and p <= LEVEL / len(pairs)
    if len(lines) > SHOWN:
        words = f"{len(lines) - len(open_lines)} of {len(lines)} comparisons are as claimed"
        more = [f"and {len(open_lines) - SHOWN} more"] if len(open_lines) > SHOWN else []
        lines = [words, *open_lines[:SHOWN], *more]
    return Verdict(claim.text, FAILS if fails else NOT_SHOWN if open_lines else HOLDS, "; ".join(lines))


def _p(a: Cell, b: Cell, correlation: float) -> float | None:
    """Return the p-value of the difference of two cells; None without intervals, or where their scales differ."""
    assert a.score is not None
    assert b.score is not None
    first, second = reach(a.score), reach(b.score)
    if first is None or second is None or a.scale != b.scale:
        return None
    gap = (ends(a)[0] - ends(b)[0]) / a.scale
    return p_value(gap, first, second, correlation, min(a.score.n, b.score.n))


def _limited(claim: Claim, cells: Sequence[Cell]) -> Verdict:
    good, bad = True, False
    for cell in cells:
        value, low, high = ends(cell)
        if _open(cell.score):
            good = False
            continue
        if claim.kind == "agrees":
            assert cell.published is not None
            near = abs(value - cell.published) <= claim.operands
            good, bad = good and near, bad or not (near or low <= cell.published <= high)
        else:
            lowest, highest = claim.limits()
            good &= lowest <= low and high <= highest
            bad |= high < lowest or low > highest
    words = "; ".join(_text(cell, published=claim.kind == "agrees") for cell in cells)
    return Verdict(claim.text, FAILS if bad else HOLDS if good else NOT_SHOWN, words)


def _open(score: Score | None) -> bool:
    """Whether a number should have an interval and has none, because its sample is too small for one."""
    return score is not None and score.low is None and score.high is None and not score.interval.startswith("none")


def _correlates(claim: Claim, cells: dict[tuple[str, str], Cell]) -> Verdict:
    rows = _rows(claim, cells)
    named = [[cells[row, column] for row in rows] for column in claim.operands[:2]]
    if lost := _missing([cell for column in named for cell in column]):
        return Verdict(claim.text, NOT_SHOWN, lost)
    x, y = (torch.tensor([ends(cell)[0] for cell in column], dtype=torch.float64) for column in named)
    score = pearson(x, y)
    if score.value is None or score.low is None or score.high is None:
        return Verdict(claim.text, NOT_SHOWN, score.note or f"{len(rows)} rows give no interval")
    outcome = HOLDS if score.low > 0 else FAILS if score.high < 0 else NOT_SHOWN
    words = f"Pearson correlation {score.value:.3f} [{score.low:.2f}, {score.high:.2f}] over {len(rows)} rows"
    return Verdict(claim.text, outcome, words)


def _text(cell: Cell, published: bool = False) -> str:
    value, low, high = ends(cell)
    interval = "" if low == high == value else f" [{low:.4g}, {high:.4g}]"
    paper = f" (published {cell.published:.4g})" if published and cell.published is not None else ""
    return f"{cell.row}, {cell.column}: {value:.4g}{interval}{paper}"
