"""How a score is shown: as a cell of a table, and which of its numbers are drawn; what failed a check shows less."""

from dataclasses import dataclass
from typing import Any

from holdfast.core.doubts import say_failed
from holdfast.numerics.statistics.score import Score
from holdfast.report.numbers import finite
from holdfast.storage.standing import SOUND, VOID


@dataclass(frozen=True)
class Cell:
    """One score as text.

    Attributes:
        value: "0.0786".
        interval: "[0.0747, 0.0807]".
        note: what is to be said of it where the pointer rests on it.
        best: whether it is better than every other, beyond chance.
        tone: "warn" or "bad" where it is no sound number.
        proved: what is proved beside it, "proved 13.8/255 [8.4, 16.1]".
        doubt: what the checks it depends on warn of.
    """

    value: str
    interval: str = ""
    note: str = ""
    best: bool = False
    tone: str = ""
    proved: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of scores: for each encoder some rows of cells."""

    title: str
    head: list[str]
    blocks: list[tuple[int, str, list[tuple[str, list[Cell]]]]]


NO_SCORE = Score(None, None, None, n=0, interval="")
"""What is shown where there is none."""


def nan(value: Any) -> float:
    """Return a number that can be drawn; NaN for all else."""
    return float(value) if finite(value) else float("nan")


Drawn = tuple[float, float, float, bool]
"""Value, low and high end as they are drawn, and whether the value is only a bound on one side."""


def unpack_score(score: Score) -> Drawn:
    """Return how a score is drawn: not at all where it is void, without an interval where it is a bound."""
    if score.standing == VOID:
        return float("nan"), float("nan"), float("nan"), False
    bound = score.standing != SOUND
    low, high = (float("nan") if bound else nan(end) for end in (score.low, score.high))
    return nan(score.value), low, high, bound


def caution(name: str, score: Score) -> str:
    """Return the sentence that a chart owes its reader where a score failed a check; "" where it is sound."""
    if score.standing == SOUND:
        return ""
    failed = say_failed(score.because)
    if score.standing == VOID:
        return f"{name} is left out: void, {failed}."
    return f"{name}, hollow: {failed}, so the truth is {score.standing} what is drawn."
