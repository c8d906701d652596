"""An old encoder of an index beside a new one: what is said of it, and its page that opens offline."""

from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from holdfast.report.charts.figure import colour
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.document import Block, Document, Items, ToCopy
from holdfast.report.gate import MARKS, requirements
from holdfast.report.index_sentences import OUTCOMES, names, sentences
from holdfast.report.numbers import number, plural, score
from holdfast.report.page import page
from holdfast.report.pictures import Shot, shot
from holdfast.report.table import Table
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_upgrade import ChangedImage, IndexMeasure, IndexRecord, JudgedCanary
from holdfast.storage.outputs import write_inside
from holdfast.storage.record_file import RunFiles

REPORT = "report.html"

SIDE, TINY = 176, 104
"""Pixels of a side of the pictures at most: of images, and of their neighbours."""

LISTED = 10
"""Canaries that are listed outside the page."""


@dataclass(frozen=True)
class Changed:
    """An image whose neighbours changed: its picture, and the nearest ones before and after."""

    text: str
    image: Shot
    before: list[Shot]
    after: list[Shot]


def document(record: IndexRecord, report: str | None = None) -> Document:
    """Return what changes where the new encoder takes the old one's place.

    Args:
        record: what was found.
        report: where its page is; not said where None.
    """
    shown: list[Block] = [*map(Text, sentences(record)), tabulate_overlap(record), sides_table(record)]
    shown += [Text(f"No threshold: {record.threshold}", "yellow")] if record.threshold else []
    lines = [Text(canary(row), OUTCOMES[row.outcome]) for row in canaries(record)]
    more = [Text(f"and {len(lines) - LISTED:,} more, see the report", "dim")] if len(lines) > LISTED else []
    shown += [Items([*lines[:LISTED], *more])] if lines else []
    shown += [*requirements(record.findings), Text(summarise_passes(record), "dim"), outcome(record)]
    return shown if report is None else [*shown, ToCopy({"Report": report})]


def tabulate_overlap(record: IndexRecord) -> Table:
    """Return what the two encoders have in common."""
    rows = [[entry.title, _cell(entry, "mean")] for entry in record.measures.values() if "mean" in entry.scores]
    return Table(["in common", "95 % interval"], rows)


def sides_table(record: IndexRecord) -> Table:
    """Return what each encoder does, and what the new one does at the old threshold."""
    old, new = names(record)
    columns = ("old", "new", "change", "kept")
    rows = [
        [entry.title, *(_cell(entry, column) for column in columns)]
        for name, entry in record.measures.items()
        if "mean" not in entry.scores and name != "false_positives"
    ]
    if (positives := record.measures.get("false_positives")) is not None:
        # Both thresholds are put where as many pairs lie below; at the old one the new encoder has another share
        rate = _cell(positives, "old")
        rows.insert(1, [positives.title, rate, rate, "", _cell(positives, "kept")])
    return Table(["", old, new, "change", "new, old threshold"], rows)


def _cell(entry: IndexMeasure, column: str) -> str:
    found = entry.scores.get(column)
    return score(found, entry.unit) if found else ""


def canaries(record: IndexRecord) -> list[JudgedCanary]:
    """Return the canaries that do not simply hold, broken ones first."""
    return [row for row in record.canaries if row.outcome in OUTCOMES]


def canary(row: JudgedCanary) -> str:
    """Return what became of a canary in one sentence."""
    distances, sides = row.distances, row.sides
    near = "; within the interval of the threshold" if row.near else ""
    kept = "" if sides.kept == sides.new else f" ({sides.kept} with the old threshold)"
    return (
        f"{row.outcome}: {row.first} and {row.second}, expected {row.expected}: {sides.old} before, "
        f"{number(distances.old)} apart; {sides.new} now{kept}, {number(distances.new)} apart{near}"
    )


def summarise_passes(record: IndexRecord) -> str:
    """Return how many encoder passes were made."""
    spent = record.encoders.old.passes, record.encoders.new.passes
    made, predicted = [each.made.forward for each in spent], [each.predicted.forward for each in spent]
    stored = "" if made == predicted else f"; those of {sum(predicted) - sum(made):,} more were stored"
    return f"Encoder passes: {made[0]:,} by the old one, {made[1]:,} by the new one{stored}"


def outcome(record: IndexRecord) -> Text:
    """Return what became of requirements and canaries."""
    missed = sum(not finding.met for finding in record.findings)
    broken = sum(row.is_broken for row in record.canaries)
    if not record.findings and not record.canaries:
        return Text("nothing was required: add --require 'overlap@10 > 90 %' or --canaries FILE", "dim")
    if record.passed:
        return Text("passed", MARKS[True][1])
    parts = [f"{missed} of {plural(len(record.findings), 'requirement')} not met"] if missed else []
    parts += [f"{broken} of {len(record.canaries)} canaries broken"] if broken else []
    return Text(f"FAILED: {'; '.join(parts)}", MARKS[False][1])


def publish(place: Path | str, record: IndexRecord) -> str:
    """Write `report.html` into a run folder, and return where it is; the file loads nothing."""
    folder = Folder(place)
    return write_inside(folder, REPORT, render(record, RunFiles(folder, {})))


def render(record: IndexRecord, folder: RunFiles) -> str:
    """Return the report as HTML; every text of the record is escaped."""
    return page(
        "index_upgrade.html",
        record=record,
        sentences=sentences(record),
        outcome=outcome(record).plain,
        tables=[(table.head, [list(map(str, row)) for row in table.rows]) for table in _tables(record)],
        findings=[line.plain for block in requirements(record.findings) for line in block.lines],
        canaries=canaries(record),
        number=number,
        chart=_chart(record),
        changed=[_build_change(entry, folder) for entry in record.changed],
    )


def _tables(record: IndexRecord) -> list[Table]:
    tables = tabulate_overlap(record), sides_table(record)
    return [table for table in tables if list(table.rows)]


def _chart(record: IndexRecord) -> str:
    """Return distances of both encoders at the same rates of false positives, as SVG; "" where there are none."""
    rows = [
        (row.old, row.new, row.low, row.high)
        for row in record.translation
        if row.new is not None and row.low is not None and row.high is not None
    ]
    if len(rows) < 2:
        return ""
    at, values, low, high = zip(*rows, strict=True)
    ratio = record.measures["distance_scale"].scores["mean"].value
    # Beside what each distance becomes: what it would be if all distances had only been scaled
    curves = [Curve(at, values, low, high, colour(1))]
    if ratio is not None:
        scaled = [ratio * value for value in at]
        curves.append(Curve(at, scaled, (), (), colour(5), style="dashed"))
    limit = record.measures.get("threshold")
    dotted = None if limit is None else limit.scores["old"].value
    drawing = Lines(
        "translation",
        curves,
        Horizontal("threshold, old encoder"),
        label="threshold, new encoder",
        unit="",
        dotted=dotted,
    )
    return drawing.svg()


def _build_change(entry: ChangedImage, folder: RunFiles) -> Changed:
    sides = [
        [
            shot(folder, near.picture, near.id, f"{near.id}, {place} nearest {when}", TINY)
            for place, near in enumerate(nearest, 1)
        ]
        for nearest, when in ((entry.before, "with the old encoder"), (entry.after, "with the new encoder"))
    ]
    text = f"keeps {entry.stay} of its first {entry.k} neighbours"
    return Changed(text, shot(folder, entry.picture, entry.id, entry.id, SIDE), *sides)
