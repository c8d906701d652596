"""An old encoder of an index beside a new one, as a page that opens offline."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.report.charts.figure import colour
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.documents.gate import write_out
from holdfast.report.documents.index_upgrade import canaries, diagnosis, outcome, tables
from holdfast.report.index_sentences import sentences
from holdfast.report.numbers import number
from holdfast.report.page import page
from holdfast.report.pictures import Shot, shot
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_upgrade import ChangedImage, IndexRecord
from holdfast.storage.outputs import write_inside
from holdfast.storage.record_file import RunFiles

REPORT = "report.html"

SCRIPTS = ("script.js",)

SIDE, TINY = 176, 104
"""Pixels of a side of the pictures at most: of images, and of their neighbours."""


@dataclass(frozen=True)
class Changed:
    """An image whose neighbours changed: its picture, and the nearest ones before and after."""

    text: str
    image: Shot
    before: list[Shot]
    after: list[Shot]


def publish(place: Path | str, record: IndexRecord) -> str:
    """Write `report.html` into a run folder, and return where it is; the file loads nothing."""
    folder = Folder(place)
    return write_inside(folder, REPORT, render(record, RunFiles(folder, {})))


def render(record: IndexRecord, folder: RunFiles) -> str:
    """Return the report as HTML; every text of the record is escaped."""
    return page(
        "index_upgrade.html",
        SCRIPTS,
        record=record,
        sentences=sentences(record),
        outcome=outcome(record).plain,
        diagnosis=diagnosis(record),
        tables=[(table.head, [list(map(str, row)) for row in table.rows]) for table in tables(record) if table.rows],
        # one encoder, so a line for each requirement
        findings=list(map(write_out, record.findings)),
        canaries=canaries(record),
        number=number,
        chart=_chart(record),
        changed=[_build_change(entry, folder) for entry in record.changed if entry.picture],
    )


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
    scale = record.measures.get("distance_scale")  # none of what may be below 0
    ratio = None if scale is None else scale.scores["mean"].value
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
        Horizontal(f"{record.distance} that is the threshold, old encoder"),
        label=f"{record.distance}, new encoder",
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
