"""One measure on its way through a comparison: tables are read, and every two encoders compared image by image."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.auditing.differences import Pair, compare_pairs
from holdfast.comparison.questions import Question
from holdfast.core import HoldfastError, Score, Table
from holdfast.core.doubts import say_failed
from holdfast.numerics.statistics.copies import firsts, rows_of_pictures
from holdfast.runtime.errors import BadData
from holdfast.storage.record import MeasureEntry
from holdfast.storage.standing import VOID


@dataclass(frozen=True)
class Paired:
    """One measure of some encoders, or of some methods.

    Attributes:
        question: what they were asked.
        scores: the headlines that are compared, by name.
        tables: those of the encoders.
        reasons: why others are not compared.
        pairs: every two of those compared.
        seeds: of methods, the headlines of their seeds.
        without_seeds: of methods, the seeds that have no number, and why.
    """

    question: Question
    scores: dict[str, Score]
    tables: dict[str, Table]
    reasons: dict[str, str]
    pairs: list[Pair]
    seeds: dict[str, dict[str, Score]] = field(default_factory=dict)
    without_seeds: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def about(self) -> MeasureEntry:
        """What a record says of the measure itself."""
        return self.question.answers[0][1]


def pair_encoders(question: Question, unfit: Collection[str]) -> Paired:
    """Read the tables of one measure and compare those that can be read; encoders that are unfit take no part."""
    # tables with the same rows, and what each image contributes to each score
    scores: dict[str, Score] = {}
    tables: dict[str, Table] = {}
    influences = {}
    reasons: dict[str, str] = {}
    ids: list[str] | None = None
    first = None
    for encoder, m in question.answers:
        if (score := m.headline_score) is None or m.table is None or encoder.name in unfit:
            continue
        name, place = encoder.name, encoder.run.place
        try:
            rows, table = encoder.run.table(m.table)
            if ids is not None and rows != ids:
                raise BadData(
                    f"expected the rows of {next(iter(scores))} in {m.table} of {place!r}, got others "
                    f"({len(rows)} rows, {len(ids)} there); run the audit again"
                )
            if ids is None:  # the audits are of the same images, and so of the same copies
                data = encoder.run.record.data
                alike = [] if data.duplicates_left_out else [(each.image, each.like) for each in data.duplicates]
                first = firsts(rows, alike)
            table = rows_of_pictures(question.measure, table, first)
            influences[name] = question.measure.influence(table, m.headline), score
            scores[name], tables[name], ids = score, table, rows
        except KeyError as error:
            reasons[name] = f"expected a column {error} in {m.table} of {place!r}; run the audit again"
        except HoldfastError as error:
            reasons[name] = str(error)
    return Paired(question, scores, tables, reasons, list(compare_pairs(influences, question.better)))


def why_not(
    name: str,
    m: MeasureEntry | None,
    reasons: Mapping[str, str],
    unfit: Mapping[str, Sequence[str]],
    no_rivals: Collection[str] = (),
) -> str | None:
    """Return why an encoder has no rank on a measure; None where it has one."""
    if name in reasons:
        return reasons[name]
    if m is None:
        return "not measured"
    if m.error:
        return f"error: {m.error}"
    if m.not_certified:
        return f"not certified: {m.not_certified}"
    if name in unfit:
        return say_failed(unfit[name])
    score = m.headline_score
    if score is not None and score.standing == VOID:
        return f"{VOID}: {say_failed(score.because)}"
    if score is not None and score.value is not None:
        return "not ranked because of its checks" if name in no_rivals else None
    return score.note if score is not None and score.note else "its score is undefined"
