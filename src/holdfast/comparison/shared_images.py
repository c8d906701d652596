"""Two answers to one question, image by image: both scores on the images that both runs have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from msgspec import structs

from holdfast.comparison.questions import Answer, Question
from holdfast.core import Measure, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.copies import firsts, score_pictures
from holdfast.runtime.errors import BadData
from holdfast.storage.gate import SharedImages
from holdfast.storage.record import MeasureEntry


@dataclass(frozen=True)
class Side:
    """What one run says, and saw.

    Attributes:
        entry: of the measure in its record, with scores of these rows.
        rows: names of the table's rows.
        table: what was observed; empty where there is no answer.
        alike: the ids of two images that show the same picture, each.
    """

    entry: MeasureEntry
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
        recorded = self.entry.scores
        scores = {
            title: _with_numbers(recorded[title], score)
            for title, score in score_pictures(measure, table, firsts(names, self.alike)).items()
            if title in recorded
        }
        return Side(structs.replace(self.entry, scores=scores), names, table, self.alike)


def _with_numbers(recorded: Score, score: Score) -> Score:
    """Return a score of a record with what rows decide of it as another one has it."""
    names = ("value", "low", "high", "n", "interval", "note")
    return replace(recorded, **{name: getattr(score, name) for name in names})


def sides(question: Question, paired: bool) -> tuple[Side, Side, SharedImages | None]:
    """Return what two runs say, on the images that both have where they are paired, and how many images these are.

    A run that attacked more images than the other is asked about those alone that the other attacked too, so that
    both scores are of the same images.

    Returns:
        both sides; the number of images, or None where rows are no images or an answer is missing.
    """
    new, old = (_read(answer) for answer in question.answers)
    if not new.table or not old.table or any(question.measure.rows(side.table) is not None for side in (new, old)):
        return new, old, None
    images = SharedImages(now=len(new.rows), baseline=len(old.rows), shared=None)
    if not paired:
        return new, old, images
    known = set(old.rows)
    shared = [name for name in new.rows if name in known]
    if shared:
        new, old = new.on(shared, question.measure), old.on(shared, question.measure)
    return new, old, structs.replace(images, shared=len(shared))


def _read(answer: Answer) -> Side:
    encoder, entry = answer
    if entry.failure or entry.table is None:
        return Side(entry, (), {})
    data = encoder.run.record.data
    alike = [] if data.duplicates_left_out else data.duplicates
    return Side(entry, *encoder.run.table(entry.table), tuple((pair.image, pair.like) for pair in alike))


def correlation(question: Question, title: str, new: Side, old: Side) -> float | None:
    """Return how two estimates of a score on the same rows are correlated; None where their units differ.

    Raises:
        HoldfastError: a table that lacks what the measure writes.
    """
    if list(new.rows) != list(old.rows) or not new.rows:
        return None
    try:
        influence, other = (question.measure.influence(side.table, title) for side in (new, old))
    except KeyError as error:
        places = " or ".join(repr(encoder.run.place) for encoder, _ in question.answers)
        raise BadData(
            f"{question.name}: expected {error} among the columns and scores in {places}; run the audit again"
        ) from None
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
