"""How a score is shown: as a cell of a table, and which of its numbers are drawn; what failed a check shows less."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.report.numbers import finite, listing
from holdfast.storage.standing import SOUND, VOID


@dataclass(frozen=True)
class Cell:
    """One score as text, "0.0786" and "[0.0747, 0.0807]"; `best` where no other is better; `tone` of a doubt."""

    value: str
    interval: str = ""
    note: str = ""
    best: bool = False
    tone: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of scores: for each encoder some rows of cells."""

    title: str
    head: list[str]
    blocks: list[tuple[int, str, list[tuple[str, list[Cell]]]]]


def standing(score: Mapping[str, Any]) -> str:
    """Return what a score still is: "sound", a bound that the truth is "at least" or "at most", or "void"."""
    return score.get("standing", SOUND)


def nan(value: Any) -> float:
    """Return a number that can be drawn; NaN for all else."""
    return float(value) if finite(value) else float("nan")


Drawn = tuple[float, float, float, bool]
"""Value, low and high end as they are drawn, and whether the value is only a bound on one side."""


def unpack_score(score: Mapping[str, Any]) -> Drawn:
    """Return how a score is drawn: not at all where it is void, without an interval where it is a bound."""
    if standing(score) == VOID:
        return float("nan"), float("nan"), float("nan"), False
    bound = standing(score) != SOUND
    low, high = (float("nan") if bound else nan(score.get(end)) for end in ("low", "high"))
    return nan(score.get("value")), low, high, bound


def caution(name: str, score: Mapping[str, Any]) -> str:
    """Return the sentence that a chart owes its reader where a score failed a check; "" where it is sound."""
    if standing(score) == SOUND:
        return ""
    failed = f"{listing(score.get('because', []))} failed"
    if standing(score) == VOID:
        return f"{name} is left out: void, {failed}."
    return f"{name}, hollow: {failed}, so the truth is {standing(score)} what is drawn."
