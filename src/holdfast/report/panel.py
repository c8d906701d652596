"""What the page shows of one chart: a picture, or a table, with the words around it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from holdfast.report.charts.figure import Drawing
from holdfast.report.numbers import finite, listing
from holdfast.storage.standing import SOUND, VOID

Legend = list[tuple[int | str | None, str]]
"""(encoder or group, name): a number has its colour and mark, a text is a CSS colour, None a grey dot."""


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


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: its heading.
        drawing: the picture; None where there is none.
        alt: what it says to those who cannot see it.
        notes: sentences below it.
        legend: its colours, where they are not those of the encoders.
        series: the encoder that it is of, where it is of one alone and its title is that encoder's name.
        table: the table in place of a picture.
        source: what tells it from the others of its section, for names of files.
    """

    title: str
    drawing: Drawing | None = None
    alt: str = ""
    notes: list[str] = field(default_factory=list)
    legend: Legend = field(default_factory=list)
    series: int | None = None
    table: Grid | None = None
    source: str = ""

    @cached_property
    def svg(self) -> str:
        """The picture for a page; "" where there is none."""
        return self.drawing.svg() if self.drawing else ""


def standing(score: Mapping[str, Any]) -> str:
    """Return what a score still is: "sound", a bound that the truth is "at least" or "at most", or "void"."""
    return score.get("standing", SOUND)


def nan(value: Any) -> float:
    """Return a number that can be drawn; NaN for all else."""
    return float(value) if finite(value) else float("nan")


Drawn = tuple[float, float, float, bool]
"""Value, low and high end as they are drawn, and whether the value is only a bound on one side."""


def drawn_score(score: Mapping[str, Any]) -> Drawn:
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
