"""The table of a corruption study: accuracy and Δ of every method on every version of the data."""

from collections.abc import Iterator

from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.document import Block, Document, ToCopy, list_items
from holdfast.report.numbers import score
from holdfast.report.table import Table
from holdfast.storage.study import StudyRecord, StudyRow

AVERAGE = "Avg Δ ↓"


def document(record: StudyRecord) -> Document:
    """Return one table for every probe and setting, with intervals."""
    shown: list[Block] = [*tables(record), *(Text(line, "dim") for line in intervals(record))]
    shown += list_items(problems(record), "bold red")
    return [*shown, ToCopy({"Again": record.command})] if record.command else shown


def tables(record: StudyRecord) -> Iterator[Table]:
    """Yield a table for every probe and setting: two lines for a method, accuracy and Δ."""
    columns = [column.title for column in record.study.columns]
    for setting, meaning in record.study.settings.items():
        for probe in dict.fromkeys(row.probe for row in record.rows):
            lines = []
            for row in record.rows:
                if (row.probe, row.setting) == (probe, setting):
                    lines += _lines(row, columns)
            yield Table(["method", *columns, AVERAGE], lines, f"{probe}, {setting}: {meaning}")


def intervals(record: StudyRecord) -> list[str]:
    """Return what the intervals are about, and what they are not."""
    seeds = record.study.seeds
    if len(seeds) < 2:
        return [
            "Intervals are over test images, given the trained encoders and what the probes learned: one training each "
            f"(seed {seeds[0]}). Another training may move a number by more than its "
            "interval; seeds = [0, 1, 2] in the study says by how much."
        ]
    listed = ", ".join(map(str, seeds))
    return [
        f"Numbers are means over test images and {len(seeds)} trainings (seeds {listed}); intervals are about other "
        "images and other trainings at once, 95 %. Trainings begin from the weights of the encoder's spec, and differ "
        "in which images they learn from where there are more, in their order, in views and heads. The untrained "
        "encoder is one, its intervals are over images.",
    ]


def _lines(row: StudyRow, columns: list[str]) -> list[list[str]]:
    """Return two lines: accuracies, and what they lose."""
    accuracy = [_cell(row.accuracy.get(c), "failed" if c in row.problems else "") for c in columns]
    drops = [_cell(row.drop.get(c)) for c in columns]
    return [[row.method, *accuracy, ""], ["  Δ", *drops, _cell(row.average)]]


def _cell(entry: Score | None, missing: str = "") -> str:
    return missing if entry is None else score(entry, "share")


def problems(record: StudyRecord) -> list[str]:
    """Return a sentence for every training or test that failed."""
    sentences = [f"{row.method}, {title}: {text}" for row in record.rows for title, text in row.problems.items()]
    return list(dict.fromkeys(sentences))
