"""Two answers to one question, image by image: both scores on the images that both runs have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.comparison.questions import Answer, Question
from holdfast.core import Measure, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.copies import firsts, score_pictures


@dataclass(frozen=True)
class Side:
    """What one run says, and saw.

    Attributes:
        entry: of the measure in its record, with scores of these rows.
        rows: names of the table's rows.
        table: what was observed; empty where there is no answer.
        alike: the ids of two images that show the same picture, each.
    """

    entry: Mapping[str, Any]
    rows: Sequence[str]
    table: Table
    alike: tuple[tuple[str, str], ...] = ()

    def on(self, names: Sequence[str], measure: Measure) -> "Side":
        """Return what it says of some of its rows: the measure's own scores of these, standing as in the record."""
        if list(self.rows) == list(names):
            return self
        places = {name: place for place, name in enumerate(self.rows)}
        chosen = torch.tensor([places[name] for name in names])
        table = {key: column[chosen] for key, column in self.table.items()}
        recorded = self.entry["scores"]
        scores = {
            title: {**recorded[title], **_numbers(score)}
            for title, score in score_pictures(measure, table, firsts(names, self.alike)).items()
            if title in recorded
        }
        return Side({**self.entry, "scores": scores}, names, table, self.alike)


def _numbers(score: Score) -> dict[str, Any]:
    """Return what rows decide of a score."""
    return {key: getattr(score, key) for key in ("value", "low", "high", "n", "interval", "note")}


def sides(question: Question, paired: bool) -> tuple[Side, Side, dict[str, int | None] | None]:
    """Return what two runs say, on the images that both have where they are paired, and how many images these are.

    A run that attacked more images than the other is asked about those alone that the other attacked too, so that
    both scores are of the same images.

    Returns:
        both sides; the number of images of `now`, of the `baseline` and `shared` (None where they are not paired), or
        None where rows are no images or an answer is missing.
    """
    new, old = (_read(answer) for answer in question.answers)
    if not new.table or not old.table or any(question.measure.rows(side.table) is not None for side in (new, old)):
        return new, old, None
    images: dict[str, int | None] = {"now": len(new.rows), "baseline": len(old.rows), "shared": None}
    if paired:
        known = set(old.rows)
        shared = [name for name in new.rows if name in known]
        images["shared"] = len(shared)
        if shared:
            new, old = new.on(shared, question.measure), old.on(shared, question.measure)
    return new, old, images


def _read(answer: Answer) -> Side:
    encoder, entry = answer
    if entry["error"] or entry["not_certified"] or not entry["scores"]:
        return Side(entry, (), {})
    data = encoder.run.record["data"]
    alike = [] if data.get("duplicates_left_out") else data.get("duplicates") or []
    return Side(entry, *encoder.run.table(entry["table"]), tuple((pair["image"], pair["like"]) for pair in alike))


def correlation(question: Question, title: str, new: Side, old: Side) -> float | None:
    """Return how two estimates on the same rows are correlated; None where no row contributes known parts of it."""
    measure = question.measure if title == new.entry["headline"] else question.measure.select_headline(title)
    if measure is None or list(new.rows) != list(old.rows):
        return None
    influence, other = measure.influence(new.table), measure.influence(old.table)
    return statistics.correlation(influence, other) if len(influence) == len(other) else None


def equal(new: Side, old: Side) -> bool:
    """Return whether two tables hold the same rows."""
    return (
        list(new.rows) == list(old.rows)
        and new.table.keys() == old.table.keys()
        and all(
            torch.allclose(column.double(), old.table[key].double(), 0, 0, equal_nan=True)
            for key, column in new.table.items()
        )
    )
