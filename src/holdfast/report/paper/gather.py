"""The figures of a record, and of several audits beside each other, by their names."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.report.apart import Apart
from holdfast.report.cells import unpack_score
from holdfast.report.charts.forest import Forest, Row
from holdfast.report.charts.sections import chart_sections
from holdfast.report.corruptions import relation_charts
from holdfast.report.documents.comparison import ARROW, count_seeds, first_names, heading
from holdfast.report.leaderboard import pareto
from holdfast.report.names import shorten_names
from holdfast.report.noises import collect_noises
from holdfast.report.numbers import plural
from holdfast.report.panel import Panel
from holdfast.report.paper.figure import Figure
from holdfast.report.paper.style import Style
from holdfast.report.series import trainings
from holdfast.runtime.errors import Missing, unknown
from holdfast.storage.comparison import Comparison
from holdfast.storage.record import Record
from holdfast.storage.record_file import RunFiles

LONGEST = 60
"""Letters of a figure's name, at most: it is the name of a file."""


@dataclass(frozen=True)
class Figures:
    """Figures by their names.

    Attributes:
        by_name: the figures.
        problems: a sentence for each chart that cannot be drawn.
    """

    by_name: Mapping[str, Figure]
    problems: tuple[str, ...]

    def pick(self, name: str, style: Style) -> Figure:
        """Return a figure in a style."""
        if not self.by_name:
            raise Missing("; ".join(["expected a record with charts, got one without any", *self.problems]))
        if name not in self.by_name:
            raise unknown("figure", name, self.by_name)
        return replace(self.by_name[name], style=style)


def figures_of_record(record: Record, files: RunFiles) -> Figures:
    """Return all figures of a record."""
    record, _ = shorten_names(record)
    apart = Apart()
    shown = _charts(record, files, apart)
    for over in ("corruptions", "encoders"):
        panels = apart("relations", lambda over=over: relation_charts(record, over), [])
        shown += [_Shown("relation", panel.title, f"Over {over}", "", panel) for panel in panels]
    if series := apart("checkpoints", lambda: trainings(record), None):
        each = [("", "Checkpoints", panel) for panel in series.together]
        each += [(run.name, f"Checkpoints of {run.name}", panel) for run in series.each for panel in run.panels]
        shown += [_Shown("checkpoints", f"{of} {panel.title}", title, "", panel) for of, title, panel in each]
    for learned in apart("learned noises", lambda: collect_noises(record, files), []):
        each = [("", f"Noises learned for {learned.name}", panel) for panel in learned.training]
        for number, noise in enumerate(learned.noises, 1):
            of = str(number) if len(learned.noises) > 1 else ""
            each += [(of, f"{noise.title}, learned for {learned.name}", panel) for panel in noise.panels]
        shown += [
            _Shown("noise", f"{learned.name} {of} {panel.title.partition(':')[0]}", about, "", panel)
            for of, about, panel in each
        ]
    return _name_figures(shown, apart)


def figures_of_comparison(data: Comparison, joint: Record | None, files: RunFiles) -> Figures:
    """Return all figures of a comparison: what every audit draws, drawn together, and what sets encoders apart.

    Args:
        data: the comparison.
        joint: its encoders in one record; None where there are none.
        files: of that record.
    """
    apart = Apart()
    seeds = count_seeds(data)
    shown = _charts(shorten_names(joint)[0], files, apart, seeds) if joint else []
    data, _ = shorten_names(data)
    if seeds and (panel := apart("methods", lambda: _draw_methods(data), None)):
        about = f"Means over {seeds}, with 95 % intervals over images and seeds; hollow: a bound on one side."
        shown.insert(0, _Shown("methods", "", "Methods on each measure that is a share", about, panel))
    series = {encoder.name: place for place, encoder in enumerate(data.encoders)}
    if panel := apart("pareto", lambda: pareto("pareto", data, series), None):
        shown.append(_Shown("pareto", "", "Two measures", "", panel))
    return _name_figures(shown, apart)


class _Shown(NamedTuple):
    """What a figure is called, what tells it from others that are called so, its title, how it is read, the chart."""

    kind: str
    source: str
    title: str
    how_to_read: str
    panel: Panel


def _draw_methods(data: Comparison) -> Panel | None:
    """Return a row for each measure that is a share, with the mean of each method and its interval; None of none."""
    series = {encoder.name: place for place, encoder in enumerate(data.encoders)}
    lines = []
    for place, name in enumerate(dict.fromkeys((*first_names(data), *data.measures))):
        m = data.measures[name]
        # Of other units the axis would mix what cannot be compared
        shares = [(row, row.score) for row in m.rows if row.score and (row.score.unit or m.unit) == "share"]
        points = [
            (series[row.encoder], *ends) for row, score in shares if math.isfinite((ends := unpack_score(score))[0])
        ]
        lines += [Row(f"{heading(m, name)} {ARROW[m.better]}", place, points)] if points else []
    names = {place: name for name, place in series.items()}
    forest = Forest("methods", lines, across="mean over seeds", names=names)
    return Panel("", forest, alt="The mean of each method with its interval, measure by measure.") if lines else None


def _charts(record: Record, files: RunFiles, apart: Apart, seeds: str = "") -> list[_Shown]:
    sections, about = chart_sections(record, files, apart), _scope(record, seeds)
    return [
        _Shown(section.short or section.heading, panel.source, section.heading, f"{section.how_to_read} {about}", panel)
        for section in sections
        for panel in section.panels
    ]


def _scope(record: Record, seeds: str) -> str:
    """Return of what a figure is, as a caption says it: the encoders, or methods of `seeds`, and the images."""
    names = [encoder.name for encoder in record.encoders if not encoder.error]
    data = record.data
    images = f"{plural(data.images, 'image')} of {data.spec}, {data.attacked:,} attacked"
    who = f"Methods, means over {seeds}" if seeds else "Encoder" if len(names) == 1 else "Encoders"
    return f"{who}: {', '.join(names)}. Images: {images}."


def _name_figures(shown: Iterable[_Shown], apart: Apart) -> Figures:
    """Give each figure a name of its own: one of a kind is called as the kind is."""
    drawn = [item for item in shown if item.panel.drawing is not None]
    kinds = [_slug(item.kind) for item in drawn]
    by_name: dict[str, Figure] = {}
    for kind, item in zip(kinds, drawn, strict=True):
        alone = kinds.count(kind) == 1
        plain = kind if alone else f"{kind}-{_slug(item.source or item.panel.title)}"[:LONGEST].rstrip("-._")
        name, count = plain, 2
        while name in by_name:
            name, count = f"{plain}-{count}", count + 1
        by_name[name] = Figure(name, item.title, item.how_to_read, item.panel)
    return Figures(by_name, tuple(f"{section} cannot be drawn: {reason}" for section, reason in apart.problems))


def _slug(text: str) -> str:
    """Return a text in letters that a file's name may have."""
    text = text.lower().replace("ℓ∞", "linf").replace("ℓ", "l")
    return re.sub(r"[^\w.]+", "-", text).strip("-._") or "figure"
