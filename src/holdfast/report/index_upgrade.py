"""An old encoder of an index beside a new one: in the terminal, and as a page that opens offline."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from holdfast.report.charts.figure import colour
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.gate import MARKS, requirements
from holdfast.report.index_sentences import OUTCOMES, names, parse_scores, sentences
from holdfast.report.numbers import number, plural, score
from holdfast.report.page import page
from holdfast.report.pictures import Shot, shot
from holdfast.report.table import Table
from holdfast.storage.filesystem import Folder
from holdfast.storage.finding import Finding
from holdfast.storage.outputs import write_inside
from holdfast.storage.record_file import RunFiles

REPORT = "report.html"

SIDE, TINY = 176, 104
"""Pixels of a side of the pictures at most: of images, and of their neighbours."""

LISTED = 10
"""Canaries that the terminal lists."""


@dataclass(frozen=True)
class Changed:
    """An image whose neighbours changed: its picture, and the nearest ones before and after."""

    text: str
    image: Shot
    before: list[Shot]
    after: list[Shot]


def print_upgrade(record: Mapping[str, Any], console: Console) -> None:
    """Print what changes where the new encoder takes the old one's place."""
    for sentence in sentences(record):
        console.print(Text(sentence))
    for table in (tabulate_overlap(record), sides_table(record)):
        console.print(table.terminal())
    if record["threshold"]:
        console.print(Text(f"No threshold: {record['threshold']}", "yellow"))
    for row in canaries(record)[:LISTED]:
        console.print(Text(canary(row), OUTCOMES[row["outcome"]]))
    if (more := len(canaries(record)) - LISTED) > 0:
        console.print(Text(f"and {more:,} more, see the report", "dim"))
    for line in requirements(findings(record)):
        console.print(line)
    console.print(Text(summarise_passes(record), "dim"))
    console.print(outcome(record))


def tabulate_overlap(record: Mapping[str, Any]) -> Table:
    """Return what the two encoders have in common."""
    rows = [
        [entry["title"], _cell(entry, "mean")] for entry in record["measures"].values() if "mean" in entry["scores"]
    ]
    return Table(["in common", "95 % interval"], rows)


def sides_table(record: Mapping[str, Any]) -> Table:
    """Return what each encoder does, and what the new one does at the old threshold."""
    old, new = names(record)
    columns = ("old", "new", "change", "kept")
    rows = [
        [entry["title"], *(_cell(entry, column) for column in columns)]
        for name, entry in record["measures"].items()
        if "mean" not in entry["scores"] and name != "false_positives"
    ]
    if (positives := record["measures"].get("false_positives")) is not None:
        rate = _cell(positives, "old")
        rows.insert(1, [positives["title"], rate, rate, "", _cell(positives, "kept")])
    return Table(["", old, new, "change", "new, old threshold"], rows)


def _cell(entry: Mapping[str, Any], column: str) -> str:
    found = parse_scores(entry).get(column)
    return score(found, entry["unit"]) if found else ""


def findings(record: Mapping[str, Any]) -> list[Finding]:
    """Return whether each requirement is met."""
    return msgspec.convert(record["findings"], list[Finding])


def canaries(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the canaries that do not simply hold, broken ones first."""
    return [row for row in record["canaries"] if row["outcome"] in OUTCOMES]


def canary(row: Mapping[str, Any]) -> str:
    """Return what became of a canary in one sentence."""
    distances, sides = row["distances"], row["sides"]
    near = "; within the interval of the threshold" if row["near"] else ""
    kept = "" if sides["kept"] == sides["new"] else f" ({sides['kept']} with the old threshold)"
    return (
        f"{row['outcome']}: {row['first']} and {row['second']}, expected {row['expected']}: {sides['old']} before, "
        f"{number(distances['old'])} apart; {sides['new']} now{kept}, {number(distances['new'])} apart{near}"
    )


def summarise_passes(record: Mapping[str, Any]) -> str:
    """Return how many encoder passes were made."""
    made, predicted = (
        [record["encoders"][side]["passes"][kind]["forward"] for side in ("old", "new")]
        for kind in ("made", "predicted")
    )
    stored = "" if made == predicted else f"; those of {sum(predicted) - sum(made):,} more were stored"
    return f"Encoder passes: {made[0]:,} by the old one, {made[1]:,} by the new one{stored}"


def outcome(record: Mapping[str, Any]) -> Text:
    """Return what became of requirements and canaries."""
    missed = sum(not finding["met"] for finding in record["findings"])
    broken = sum(row["outcome"] == "broken" for row in record["canaries"])
    if not record["findings"] and not record["canaries"]:
        return Text("nothing was required: add --require 'overlap@10 > 90 %' or --canaries FILE", "dim")
    if record["passed"]:
        return Text("passed", MARKS[True][1])
    parts = [f"{missed} of {plural(len(record['findings']), 'requirement')} not met"] if missed else []
    parts += [f"{broken} of {len(record['canaries'])} canaries broken"] if broken else []
    return Text(f"FAILED: {'; '.join(parts)}", MARKS[False][1])


def publish(place: Path | str, record: Mapping[str, Any]) -> str:
    """Write `report.html` into a run folder, and return where it is; the file loads nothing."""
    folder = Folder(place)
    return write_inside(folder, REPORT, render(record, RunFiles(folder, {})))


def render(record: Mapping[str, Any], folder: RunFiles) -> str:
    """Return the report as HTML; every text of the record is escaped."""
    return page(
        "index_upgrade.html",
        record=record,
        sentences=sentences(record),
        outcome=outcome(record).plain,
        tables=[(table.head, [list(map(str, row)) for row in table.rows]) for table in _tables(record)],
        findings=[line.plain for line in requirements(findings(record))],
        canaries=canaries(record),
        number=number,
        chart=_chart(record),
        changed=[_build_change(entry, folder) for entry in record["changed"]],
    )


def _tables(record: Mapping[str, Any]) -> list[Table]:
    tables = tabulate_overlap(record), sides_table(record)
    return [table for table in tables if list(table.rows)]


def _chart(record: Mapping[str, Any]) -> str:
    """Return distances of both encoders at the same rates of false positives, as SVG; "" where there are none."""
    rows = [row for row in record["translation"] if None not in row.values()]
    if len(rows) < 2:
        return ""
    at, values, low, high = ([row[key] for row in rows] for key in ("old", "new", "low", "high"))
    ratio = parse_scores(record["measures"]["distance_scale"])["mean"].value
    curves = [Curve(at, values, low, high, colour(1))]
    if ratio is not None:
        scaled = [ratio * value for value in at]
        curves.append(Curve(at, scaled, (), (), colour(5), style="dashed"))
    limit = record["measures"].get("threshold")
    dotted = None if limit is None else parse_scores(limit)["old"].value
    drawing = Lines(
        "translation",
        curves,
        Horizontal("threshold, old encoder"),
        label="threshold, new encoder",
        unit="",
        dotted=dotted,
    )
    return drawing.svg()


def _build_change(entry: Mapping[str, Any], folder: RunFiles) -> Changed:
    name = entry["id"]
    sides = [
        [
            shot(folder, n["picture"], n["id"], f"{n['id']}, {place} nearest {when}", TINY)
            for place, n in enumerate(entry[key], 1)
        ]
        for key, when in (("before", "with the old encoder"), ("after", "with the new encoder"))
    ]
    text = f"keeps {entry['stay']} of its first {entry['k']} neighbours"
    return Changed(text, shot(folder, entry["picture"], name, name, SIDE), *sides)
