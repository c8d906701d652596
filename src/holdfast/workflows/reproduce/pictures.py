"""Pictures of a reproduction: panels drawn from the cells of its table, from its images, or by its audits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.text import Text

from holdfast.comparison.records import Run, open_run
from holdfast.core import HoldfastError
from holdfast.report.charts.figure import Drawing, colour, marker
from holdfast.report.charts.forest import Forest, Row
from holdfast.report.charts.histogram import Histogram, Spread
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.charts.points import Cloud, Scattered
from holdfast.report.document import Block, Heading, Picture, list_items
from holdfast.report.panel import Panel as Chart
from holdfast.report.paper.figure import Figure
from holdfast.report.paper.gather import figures_of_record
from holdfast.report.paper.style import Style
from holdfast.runtime.errors import Missing, pick
from holdfast.storage.record_file import RECORD, run_files
from holdfast.storage.reproduction import CellEntry, ReproductionRecord
from holdfast.workflows.reproduce.cells import column_of, entry_of, measure_of, read_table
from holdfast.workflows.reproduce.figures import OF_IMAGES, OF_TABLE, DrawnLine, Panel, list_lines, places_of
from holdfast.workflows.reproduce.recipe import Reproduction
from holdfast.workflows.reproduce.table import at_of

STYLE = Style(width=4.8, font="sans", editable=True)
"""As wide as a phone can show with letters that can be read."""

BINS = 16

Table = Mapping[tuple[str, str], CellEntry]
"""The cells by (row, column)."""

Number = tuple[float, float, float, float]
"""A number of ours with the ends of its interval, and the paper's, in the paper's scale; NaN where there is none."""


def cells_of(record: ReproductionRecord) -> dict[tuple[str, str], CellEntry]:
    """Return the cells of a record by (row, column)."""
    columns = [column.name for column in record.columns]
    return {(row.name, name): cell for row in record.rows for name, cell in zip(columns, row.cells, strict=True)}


def draw(recipe: Reproduction, cells: Table, audits: Mapping[str, Run]) -> tuple[list[Block], dict[str, str]]:
    """Return what a document shows of the figure, and the pictures by the names of their files.

    What cannot be drawn is said in its place.

    Args:
        recipe: whose panels are drawn.
        cells: of the table that was filled.
        audits: those of its audits that there are, for panels that show more than the table.
    """
    blocks: list[Block] = [Heading("The figure")] if recipe.figures else []
    pictures: dict[str, str] = {}
    before = ""
    for panel in recipe.figures:
        try:
            source, figures = _figures(recipe, panel, cells, audits)
        except HoldfastError as error:
            blocks += list_items([f"{panel.title} is not drawn: {error}"], "yellow")
            continue
        # Said once for all panels that come from the same
        blocks += [] if source == before else [Text(source, "dim")]
        before = source
        for figure in figures:
            key = f"{recipe.name}-{recipe.profile}-{len(pictures) + 1}"
            pictures[f"{key}.svg"] = svg_of(figure, key)
            blocks.append(Picture(f"{key}.svg", figure.panel.alt, figure.caption))
    return blocks, pictures


def open_audits(recipe: Reproduction, folder: Path, seeds: Sequence[int]) -> dict[str, Run]:
    """Return those audits of a run folder that panels show more of than the table; of several trainings, the first."""
    # Charts of an audit, and what is drawn of images, need more than the cells
    names, needed = {name: name for name in recipe.audits}, {panel.audit for panel in recipe.figures}
    for panel in recipe.figures:
        if panel.kind in OF_IMAGES:
            needed |= {entry_of("audit", _at(recipe, place), names) for place in _places(recipe, panel)}
    place = folder / f"seed-{seeds[0]}" if seeds else folder
    audits = {name: place / "audits" / name for name in recipe.audits if name in needed}
    return {name: open_run(str(audit)) for name, audit in audits.items() if (audit / RECORD).exists()}


def svg_of(figure: Figure, key: str) -> str:
    """Return a figure as SVG whose ids begin with a key, and only those that are referred to: a page has many."""
    # Ids of one picture must not be those of another on the same page
    text = figure._repr_svg_()
    named = set(re.findall(r"#([\w.-]+)", text))
    text = re.sub(r' id="([\w.-]+)"', lambda name: f' id="{key}-{name[1]}"' if name[1] in named else "", text)
    return re.sub(r'(xlink:href="|url\()#(?=[\w-])', rf"\1#{key}-", text)


def _figures(recipe: Reproduction, panel: Panel, cells: Table, audits: Mapping[str, Run]) -> tuple[str, list[Figure]]:
    """Return what a panel is drawn from, and its pictures: one, or those of the charts that it names."""
    if panel.kind == "audit":
        run = _audit(panel.audit, audits)
        drawn = figures_of_record(run.record, run_files(run.folder, run.record))
        chosen = [drawn.pick(name, STYLE) for name in panel.charts]
        source = "Charts of the audits of this run. The paper's pictures have no numbers to set beside them."
        return source, [replace(f, title=f"{panel.title}: {f.title}") for f in chosen]
    source, says, drawing, alt = (_of_table if panel.kind in OF_TABLE else _of_images)(recipe, panel, cells, audits)
    return source, [Figure(panel.title, panel.title, says, Chart("", drawing, f"{panel.title}: {alt}"), STYLE)]


def _of_table(recipe: Reproduction, panel: Panel, cells: Table, _: Mapping[str, Run]) -> tuple[str, str, Drawing, str]:
    """Return the lines of a panel, or its points beside their names: where from, its caption, itself, in words."""
    lines = _lines(recipe, panel)
    if lost := [place for line in lines for place in line.places if place not in cells]:
        raise Missing(f"expected a table with {', '.join(lost[0])}, got one without")
    numbers = [[_number(cells[place]) for place in line.places] for line in lines]
    if np.isnan(np.array([n[0] for line in numbers for n in line])).all():
        raise Missing("none of its numbers could be found")
    # Ours in colours of their own, the paper's hollow in the same ones
    make = _curves if panel.kind == "curves" else _points
    drawing = make(panel, lines, numbers)
    flat = [number for line in numbers for number in line]
    intervals = any(low < high for _, low, high, _ in flat)
    ends = "" if not intervals else ", bands" if panel.kind == "curves" else ", bars"
    paper = any(published == published for *_, published in flat)
    source = f"Drawn from the numbers of the table{ends and f'{ends} from their 95 % intervals'}. "
    source += "Hollow: the paper's numbers." if paper else "The paper prints no number of it."
    across = f" against {panel.across}" if panel.across else ""
    return source, "", drawing, f"{panel.label}{across}, {', '.join(line.name for line in lines)}"


def _number(cell: CellEntry) -> Number:
    """Return a number with the ends of its interval, and the paper's."""
    published = np.nan if cell.published is None else float(cell.published)
    if cell.score is None or cell.score.value is None:
        return np.nan, np.nan, np.nan, published
    low, high = (np.nan if end is None else end for end in (cell.score.low, cell.score.high))
    return cell.score.value * cell.scale, low * cell.scale, high * cell.scale, published


def _curves(panel: Panel, lines: Sequence[DrawnLine], numbers: Sequence[Sequence[Number]]) -> Drawing:
    curves, printed = [], []
    for series, (line, values) in enumerate(zip(lines, numbers, strict=True)):
        at, tint, mark = places_of(panel, line, panel.title), colour(series), marker(series)
        value, low, high, published = (list(each) for each in zip(*values, strict=True))
        curves.append(Curve(at, value, low, high, tint, mark, name=line.name))
        if not np.isnan(published).all():
            hollow = [True] * len(at)
            printed.append(Curve(at, published, (), (), tint, mark, "points", hollow, whose=f"{line.name}, published"))
    # A mark below every number, wherever lines have theirs
    ticks = sorted({x for curve in curves for x in curve.x})
    across = Horizontal(panel.across, ticks, log=panel.scale == "log")
    return Lines(panel.title, [*curves, *printed], across, label=panel.label, unit="")


def _points(panel: Panel, lines: Sequence[DrawnLine], numbers: Sequence[Sequence[Number]]) -> Drawing:
    rows: dict[str, list[tuple[int, float, float, float, bool]]] = {}
    for series, (line, values) in enumerate(zip(lines, numbers, strict=True)):
        for name, (value, low, high, published) in zip(line.names, values, strict=True):
            # Without an interval a point stands alone; the paper's is hollow
            ends = (low, high) if low <= high else (value, value)
            points = [(series, value, *ends, False), (series, published, published, published, True)]
            rows.setdefault(name, []).extend(point for point in points if not np.isnan(point[1]))
    drawn = [Row(name, 0, points) for name, points in rows.items() if points]
    return Forest(panel.title, drawn, across=panel.label, names={i: line.name for i, line in enumerate(lines)}, unit="")


def _of_images(
    recipe: Reproduction, panel: Panel, _: Table, audits: Mapping[str, Run]
) -> tuple[str, str, Drawing, str]:
    """Return a panel of the values of images behind numbers of the table: where from, its caption, itself, in words."""
    places = _places(recipe, panel)
    varied = [len({place[i] for place in places}) > 1 for i in range(2)]
    scales = {line.name: line.scale for line in (*recipe.rows, *recipe.columns)}
    read: dict[str, list[np.ndarray]] = {}
    for place in places:
        # The columns of the measure's table that the number is made of, where all of them have a value
        at = _at(recipe, place)
        run = _audit(entry_of("audit", at, {name: name for name in recipe.audits}), audits)
        measure = measure_of(run, at)
        table = read_table(run, measure)[1]
        names = panel.values or (column_of(measure, at),)
        scale = 1.0 if panel.values else scales[place[0]] * scales[place[1]]
        columns = np.stack([scale * pick("column", name, table).double().numpy() for name in names])
        name = ", ".join(part for part, several in zip(place, varied, strict=True) if several) or place[0]
        read[name] = list(columns[:, np.isfinite(columns).all(0)])
        if not read[name][0].size:
            raise Missing(f"{name} has no image with a value")
    source = "Drawn from the images of this run that are behind the numbers of the table."
    source += "" if panel.marks else " The paper prints no number of it."
    # How many images each number is of, once where it is the same
    counts = " and ".join(dict.fromkeys(f"{len(values[0]):,}" for values in read.values()))
    drawing, says = _picture(panel, read, _marks(recipe, panel))
    return source, f"{counts} images. {says}".strip(), drawing, f"{panel.label} of images, {', '.join(read)}"


def _picture(
    panel: Panel, read: Mapping[str, Sequence[np.ndarray]], marks: Sequence[tuple[float, str]]
) -> tuple[Drawing, str]:
    """Return the values of images as a histogram, one by one, or against each other; and how it is read."""
    named = list(enumerate(read.items()))
    if panel.kind == "histogram":
        spreads = [Spread(series, values[0], name=name) for series, (name, values) in named]
        says = "The curve is a Gaussian kernel density estimate, its width by Scott's rule; the mark is the median."
        says += " Dotted: numbers of the paper's text." if marks else ""
        return Histogram(panel.title, spreads, label=panel.label, bins=BINS, smooth=True, marks=marks), says
    if panel.kind == "images":
        rows = []
        for image in range(max(len(values[0]) for values in read.values())):
            shown = [(s, float(v[0][image])) for s, (_, v) in named if image < len(v[0])]
            rows.append(Row(f"image {image + 1}", 0, [(s, value, value, value, False) for s, value in shown]))
        return Forest(panel.title, rows, across=panel.label, names={s: name for s, (name, _) in named}, unit=""), ""
    clouds = [Cloud(series, x, y, name=name) for series, (name, (x, y)) in named]
    drawing = Scattered(panel.title, clouds, across=panel.across, label=panel.label, diagonal=True)
    return drawing, "On the dashed line both are equal."


def _audit(name: str, audits: Mapping[str, Run]) -> Run:
    if name not in audits:
        raise Missing(f"it shows more than the table, and no run of the audit {name} is at hand")
    return audits[name]


def _at(recipe: Reproduction, place: tuple[str, str]) -> Mapping[str, object]:
    """Return where the number at a place of the table is found, see `at_of`."""
    lines = {row.name: row for row in recipe.rows}, {column.name: column for column in recipe.columns}
    row, column = (pick("line", name, known) for name, known in zip(place, lines, strict=True))
    return at_of(row, column)


def _places(recipe: Reproduction, panel: Panel) -> list[tuple[str, str]]:
    return [place for line in _lines(recipe, panel) for place in line.places]


def _lines(recipe: Reproduction, panel: Panel) -> list[DrawnLine]:
    rows, columns = ([line.name for line in lines] for lines in (recipe.rows, recipe.columns))
    return list_lines(panel, rows, columns, panel.title)


def _marks(recipe: Reproduction, panel: Panel) -> list[tuple[float, str]]:
    """Return the published numbers of the columns that are marked, of every row that is drawn."""
    drawn = {row for row, _ in _places(recipe, panel)}
    return [
        (value, column.name)
        for row in recipe.rows
        for column, value in zip(recipe.columns, row.published, strict=False)
        if row.name in drawn and column.name in panel.marks and value is not None
    ]
