"""Each kind of chart that a record may ask for, drawn for all encoders together; see `holdfast.core.chart`."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeGuard, TypeVar

import numpy as np

from holdfast.numerics.statistics.score import Score
from holdfast.report.cells import NO_SCORE, Cell, Grid, caution, nan, unpack_score
from holdfast.report.charts import figure
from holdfast.report.charts.forest import Forest, Row
from holdfast.report.charts.histogram import Histogram, Spread
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.charts.matrix import Matrix
from holdfast.report.charts.points import Cloud, Scattered
from holdfast.report.charts.twins import disambiguate
from holdfast.report.folder import read_column
from holdfast.report.names import short_names
from holdfast.report.numbers import choice, finite, number, plural, score, statement
from holdfast.report.panel import Legend, Panel
from holdfast.runtime.errors import HoldfastError, Unsupported
from holdfast.storage.chart import (
    CellsEntry,
    ChartEntry,
    CurvesEntry,
    DistributionEntry,
    ReadoutsEntry,
    RowEntry,
    ScatterEntry,
    ShadesEntry,
)
from holdfast.storage.record import MeasureEntry
from holdfast.storage.record_file import RunFiles
from holdfast.storage.standing import ONE_SIDE, VOID

Kind = TypeVar("Kind", bound=ChartEntry, covariant=True)


def find_score(measure: MeasureEntry | None, name: str | None) -> Score:
    """Return a score of a measure by its name; one that is undefined where there is none."""
    return measure.scores.get(name, NO_SCORE) if measure and name is not None else NO_SCORE


@dataclass(frozen=True)
class Contribution(Generic[Kind]):
    """What one encoder contributes to a chart.

    Attributes:
        series: the encoder's number.
        name: of the encoder.
        chart: the chart, as the record has it.
        measure: the entry of its measure in the record; None where an observation or a comparison says the chart.
        key: the name of the measure; "" where it is of none.
    """

    series: int
    name: str
    chart: Kind
    measure: MeasureEntry | None
    key: str = ""

    @property
    def about(self) -> MeasureEntry:
        """Its measure, for charts that are drawn from scores or tables.

        Raises:
            HoldfastError: it is of none.
        """
        if self.measure is None:
            kind = self.chart.kind
            raise Unsupported(f"{self.name}: expected a measure with its {kind} chart, got none; draw curves instead")
        return self.measure

    @property
    def headline_score(self) -> Score:
        """The score that the chart is about, by which it is marked."""
        return find_score(self.measure, self.chart.score or (self.measure and self.measure.headline))

    @property
    def void(self) -> bool:
        """Whether nothing of it means anything."""
        return self.headline_score.standing == VOID

    @property
    def bound(self) -> bool:
        """Whether it is only a bound on one side."""
        return self.headline_score.standing in ONE_SIDE

    def score(self, name: str) -> Score:
        """Return a score of its measure, see `find_score`."""
        return find_score(self.measure, name)


def _is_of(part: Contribution[ChartEntry], kind: type[Kind]) -> TypeGuard[Contribution[Kind]]:
    """Return whether a contribution is to a chart of a kind."""
    return isinstance(part.chart, kind)


def readouts(key: str, title: str, parts: Sequence[Contribution[ReadoutsEntry]], folder: RunFiles) -> list[Panel]:
    """Draw scores against a number: a line for each encoder that has two with a value."""
    curves, rings, notes, legend, words = [], [], [], [], []
    # a curve for each encoder through the scores that may be drawn, the others named
    for p in parts:
        ordered = sorted(zip(p.chart.at, map(p.score, p.chart.scores), strict=False), key=lambda point: point[0])
        at, scores = [x for x, _ in ordered], [s for _, s in ordered]
        y, low, high, bounds = zip(*map(unpack_score, scores), strict=True) if scores else ((), (), (), ())
        notes += dict.fromkeys(filter(None, (caution(p.name, s) for s in scores)))
        if np.isfinite(y).sum() < 2:
            continue
        tint = figure.colour(p.series)
        curves.append(Curve(at, y, low, high, tint, figure.marker(p.series), hollow=bounds, name=p.name))
        # the ends in words, and the best value in a ring
        valued = [(x, s) for x, s, value in zip(at, scores, y, strict=True) if finite(value)]
        ends = ", ".join(f"{score(s, p.about.unit)} at {x:g}" for x, s in (valued[0], valued[-1]))
        words.append(f"{p.name} {ends}")
        if p.chart.choice and p.chart.choice in p.about.scores:
            chosen = p.score(p.chart.choice)
            legend.append((p.series, f"{p.name} {p.chart.choice} {choice(chosen)}"))
            rings += [(x, value, tint) for x, value in zip(at, y, strict=True) if x == chosen.value]
    # all curves on one axis, with a tick where scores are
    if not curves:
        return []
    about, ticks = parts[0].about, sorted({x for c in curves for x in c.x})
    across = Horizontal(parts[0].chart.across, ticks, whole=all(float(x).is_integer() for x in ticks))
    picture = Lines(key, curves, across, label=about.title, unit=about.unit, rings=rings)
    return [Panel(title, picture, f"{title} against {across.label}: {'; '.join(words)}.", notes, legend)]


def curves(key: str, title: str, parts: Sequence[Contribution[CurvesEntry]], folder: RunFiles) -> list[Panel]:
    """Draw lines: those without names of all encoders in one chart, those with names in one for each encoder."""
    notes = [caution(p.name, p.headline_score) for p in parts if caution(p.name, p.headline_score)]
    parts = [p for p in parts if not p.void]
    shared = [p for p in parts if not any(line.name for line in p.chart.lines)]
    panels = [draw_together(f"{key}-{p.series}", p.name, [p], p.series) for p in parts if p not in shared]
    if shared:
        panels.insert(0, draw_together(key, title, shared))
    return [*panels[:-1], _add_notes(panels[-1], notes)] if panels else [Panel(title, notes=notes)] if notes else []


def draw_together(key: str, title: str, parts: Sequence[Contribution[ChartEntry]], series: int | None = None) -> Panel:
    """Draw lines of some encoders, or those with names of one, on one pair of axes.

    Raises:
        HoldfastError: another chart than one of lines.
    """
    lined = [p for p in parts if _is_of(p, CurvesEntry)]
    if len(lined) < len(parts):
        kinds = ", ".join(dict.fromkeys(p.chart.kind for p in parts))
        raise Unsupported(f"{title}: expected curves, which are all that can be drawn together, got {kinds}")
    chart = lined[0].chart
    shaded: dict[str, list[tuple[str, str]]] = {"solid": [], "dashed": [], "points": []}
    drawn: list[Curve] = []
    legend: Legend = []
    # each line with its colour, mark and place in the legend
    for p in lined:
        for line in p.chart.lines:
            tint, mark = figure.colour(p.series), figure.marker(p.series)
            if series is not None:  # lines of one kind have shades of their own; one alone is that of the text
                total = sum(sibling.style == line.style for sibling in p.chart.lines)
                place = len(shaded[line.style])
                alone = total == 1 and line.style == "dashed"
                tint, mark = figure.INK if alone else figure.shade(place / max(1, total - 1)), ""
                shaded[line.style].append((tint, line.name))
                dashed = " dashed" if line.style == "dashed" else ""
                if line.name and line.name not in [name for _, name in legend]:
                    legend.append((figure.css(figure.INK if dashed else tint) + dashed, line.name))
            y, low, high = ([nan(value) for value in values] for values in (line.y, line.low, line.high))
            if line.style == "dashed" and len(lined) > 1:
                low, high = [], []  # hatched areas of several encoders hide each other
            if line.style != "points" and any(sibling.style == "points" for sibling in p.chart.lines):
                mark = ""  # marks are those of the points
            mark = "" if line.style == "dashed" else mark
            hollow = [p.bound] * len(line.x) if p.bound and line.style != "dashed" else ()
            name = line.name or ("" if line.style == "dashed" or line is not p.chart.lines[0] else p.name)
            x = [255 * place for place in line.x] if p.chart.in_255ths else line.x
            drawn.append(Curve(x, y, low, high, tint, mark, line.style, hollow, name, p.name))
    # all lines on one axis, and what they say in words
    scale = 255 if chart.in_255ths else 1
    most = max((scale * p.chart.most for p in lined if p.chart.most is not None), default=None)
    whole = all(float(x).is_integer() for c in drawn for x in c.x)
    marks = [(scale * place, name) for place, name in _marks([p.chart for p in lined])]
    dotted = None if chart.dotted is None else scale * chart.dotted
    log = chart.scale == "log"
    ending = "/255" if chart.in_255ths else ""
    across = Horizontal(chart.across, whole=whole, most=most, log=log, marks=marks, ending=ending)
    picture = Lines(key, drawn, across, label=chart.label, unit=chart.unit, dotted=dotted)
    summaries = {p.chart.summary: p.name for p in lined}
    words = "; ".join(f"{name}: {text}" for text, name in summaries.items())
    if len(summaries) == 1:
        words = f"{chart.summary}, {plural(len(lined), 'encoder')}"
    notes = list(dict.fromkeys(p.chart.note for p in lined if p.chart.note))
    return Panel(title, picture, f"{title}. {words.rstrip('.')}.", notes, legend, series)


def _marks(charts: Sequence[CurvesEntry]) -> tuple[tuple[float, str], ...]:
    """Return the marks of all charts; one that several have once, in the middle of its places.

    Encoders may see their images in other sizes, so that an edit of a file is not equally large for all.
    """
    places: dict[str, list[float]] = {}
    for chart in charts:
        for place, name in zip(chart.marks, chart.named, strict=True):
            places.setdefault(name, []).append(place)
    return tuple((statistics.median(several), name) for name, several in places.items())


def _add_notes(panel: Panel, notes: list[str]) -> Panel:
    return replace(panel, notes=[*panel.notes, *notes])


def columns(
    parts: Sequence[Contribution[Kind]], names: Callable[[Kind], Sequence[str]], folder: RunFiles
) -> tuple[list[tuple[Contribution[Kind], list[np.ndarray]]], list[str]]:
    """Return columns of the tables of several encoders where all of them are finite, and notes on what is left out.

    Args:
        parts: the charts.
        names: returns which columns a chart is of.
        folder: where the tables are.
    """
    readable, notes = [], []
    for p in parts:
        notes += [caution(p.name, p.headline_score)] if caution(p.name, p.headline_score) else []
        if p.void or not p.about.table:
            continue
        try:
            values = [read_column(folder, p.about.table, name) for name in names(p.chart)]
        except HoldfastError as error:
            notes.append(f"{p.name}: {error}")
            continue
        shown = np.all([np.isfinite(column) for column in values], axis=0)
        if not shown.all():
            absent = int((~shown).sum())
            notes.append(
                f"{p.name}: {plural(absent, 'image')} without a value (not attacked, or undefined) "
                f"{'is' if absent == 1 else 'are'} not drawn."
            )
        if shown.any():
            readable.append((p, [column[shown] for column in values]))
    return readable, notes


def distribution(
    key: str, title: str, parts: Sequence[Contribution[DistributionEntry]], folder: RunFiles
) -> list[Panel]:
    """Draw how a column spreads over the images; nothing where it is yes or no: the score says all there is."""
    readable, notes = columns(parts, lambda chart: [chart.column], folder)
    if readable and all(np.isin(values, (0, 1)).all() for _, (values,) in readable):
        return []
    if not readable:
        return [Panel(title, notes=notes)] if notes else []
    label = f"{parts[0].about.title} of each image"
    medians = ", ".join(f"{p.name} {number(float(np.median(values)))}" for p, (values,) in readable)
    spreads = [Spread(p.series, values, p.bound, p.name) for p, (values,) in readable]
    picture = Histogram(key, spreads, label=label, unit=parts[0].about.unit)
    return [Panel(title, picture, f"Histogram: {label}. Medians: {medians}.", notes)]


def clouds(key: str, title: str, parts: Sequence[Contribution[ScatterEntry]], folder: RunFiles) -> list[Panel]:
    """Draw two columns against each other."""
    readable, notes = columns(parts, lambda chart: [chart.x, chart.y], folder)
    if not readable:
        return [Panel(title, notes=notes)] if notes else []
    across, label = parts[0].chart.across, parts[0].chart.label
    points = [Cloud(p.series, x, y, p.bound, p.name) for p, (x, y) in readable]
    picture = Scattered(key, points, across=across, label=label, diagonal=True)
    total = plural(sum(len(cloud.x) for cloud in points), "point")
    return [Panel(title, picture, f"{title}: {label} against {across}, {total}.", notes)]


def rows(key: str, title: str, parts: Sequence[Contribution[RowEntry]], folder: RunFiles) -> list[Panel]:
    """Draw headlines of several measures below each other; nothing where fewer than two measures have a value."""
    # the rows, from the top, with names that tell them apart
    by_measure: dict[str, list[Contribution[RowEntry]]] = {}
    for p in sorted(parts, key=lambda p: p.chart.place):  # stable: else as the record has them
        by_measure.setdefault(str(p.about.part), []).append(p)
    firsts = [contributions[0] for contributions in by_measure.values()]
    setting = {name for p in firsts for name, _ in p.chart.setting} | {"name"}
    hows = [{k: v for k, v in p.about.part.items() if k not in setting} for p in firsts]
    # a mark with its interval for each encoder; what has no value is named
    drawn, notes, words = [], [], {}
    for name, contributions in zip(
        disambiguate([p.chart.name for p in firsts], hows), by_measure.values(), strict=True
    ):
        points = []
        for p in contributions:
            value, low, high, bound = unpack_score(p.headline_score)
            if caution(p.name, p.headline_score):
                notes.append(caution(f"{p.name}: {name}", p.headline_score))
            elif not finite(value):
                why = p.about.error or p.headline_score.note or "no value"
                notes.append(f"{p.name}: {name} is left out ({why.rstrip('.')}).")
            if finite(value):
                ends = [end if finite(end) else value for end in (low, high)]
                points.append((p.series, value, *ends, bound))
                words.setdefault((p.series, p.name), []).append(f"{name} {score(p.headline_score, p.about.unit)}")
        if points:
            place = contributions[0].chart.place
            drawn.append(Row(name, place[0] if place else 0, points))
    if len(drawn) < 2:
        return []
    each = "; ".join(f"{name}: {', '.join(words[series, name])}" for series, name in sorted(words))
    picture = Forest(key, drawn, across=parts[0].chart.across, names={p.series: p.name for p in parts})
    return [Panel(title, picture, f"{title}. {each}.", notes)]


def cells(key: str, title: str, parts: Sequence[Contribution[CellsEntry]], folder: RunFiles) -> list[Panel]:
    """Show scores as a table; the best of each row is bold, the first of equals."""
    blocks = []
    for p in parts:
        block = [(head, _row(p, names)) for head, names in zip(p.chart.rows, p.chart.scores, strict=False)]
        blocks.append((p.series, p.name, block))
    chart = parts[0].chart
    notes = list(dict.fromkeys(p.chart.note for p in parts if p.chart.note))
    return [Panel(title, notes=notes, table=Grid(title, ["encoder", chart.corner, *chart.columns], blocks))]


def _row(p: Contribution[CellsEntry], names: Sequence[str]) -> list[Cell]:
    scores = [p.score(name) for name in names]
    values = [unpack_score(s)[0] for s in scores]
    finite_values = [value for value in values if finite(value)]
    best = (min if p.about.better == "lower" else max)(finite_values) if len(set(finite_values)) > 1 else None
    at = values.index(best) if best is not None else None
    texts = [statement(s, p.about.unit) if finite(s.value) else ("-", "") for s in scores]
    return [Cell(*text, s.note, i == at) for i, (text, s) in enumerate(zip(texts, scores, strict=True))]


def shades(key: str, title: str, parts: Sequence[Contribution[ShadesEntry]], folder: RunFiles) -> list[Panel]:
    """Draw scores of all encoders as a matrix of coloured cells: a row for each encoder, in order of the columns."""
    columns = list(dict.fromkeys(column for p in parts for column in p.chart.columns))
    heads = short_names(columns)
    # the cells, with what is void left empty, and bounds in words
    values, texts, notes, words = np.full((len(parts), len(columns)), np.nan), [], [], []
    for row, p in enumerate(parts):
        scores = dict(zip(p.chart.columns, map(p.score, p.chart.scores), strict=False))
        notes += dict.fromkeys(filter(None, (caution(f"{p.name}, {heads[name]}", s) for name, s in scores.items())))
        values[row] = [unpack_score(scores.get(column, NO_SCORE))[0] for column in columns]
        unit, drawn = p.about.unit, dict(zip(columns, values[row], strict=True))
        cells = {c: statement(scores[c], unit) if finite(value) else ("", "") for c, value in drawn.items()}
        texts.append(list(cells.values()))
        words.append(f"{p.name}: " + ", ".join(f"{heads[c]} {' '.join(text)}" for c, text in cells.items() if text[0]))
    if not np.isfinite(values).any():
        return [Panel(title, notes=notes)] if notes else []
    names, chart = [p.name for p in parts], parts[0].chart
    picture = Matrix(key, values, texts, names, list(heads.values()), x=chart.across, y=chart.label)
    return [Panel(title, picture, f"{title}. {'; '.join(words)}.", notes)]


Draw = Callable[[str, str, Sequence[Contribution[ChartEntry]], RunFiles], list[Panel]]
"""Draws a chart: of its key, its title, what each encoder contributes, and the files of the run."""


def _narrow(
    kind: type[Kind], draw: Callable[[str, str, Sequence[Contribution[Kind]], RunFiles], list[Panel]]
) -> tuple[type[ChartEntry], Draw]:
    """Return a kind of chart, and its function such that it takes charts of any kind, and draws those of its own."""
    return kind, lambda key, title, parts, folder: draw(key, title, [p for p in parts if _is_of(p, kind)], folder)


KINDS: dict[type[ChartEntry], Draw] = dict([
    _narrow(RowEntry, rows), _narrow(ReadoutsEntry, readouts), _narrow(CellsEntry, cells),
    _narrow(ShadesEntry, shades), _narrow(CurvesEntry, curves), _narrow(ScatterEntry, clouds),
    _narrow(DistributionEntry, distribution),
])  # fmt: skip
"""Kind of chart -> how it is drawn; in this order their sections stand on the page."""
