"""Checkpoints of a training, as data for the report: every score over them, and how classes fluctuate."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from holdfast.numerics.statistics.score import Score
from holdfast.report.cells import caution, unpack_score
from holdfast.report.charts.figure import colour, marker
from holdfast.report.charts.kinds import find_score
from holdfast.report.charts.lines import Curve, Horizontal, Lines
from holdfast.report.numbers import finite, number, plural, score
from holdfast.report.panel import Panel
from holdfast.report.verdict import titles
from holdfast.storage.record import FluctuationEntry, MeasureEntry, Record, SeriesEntry

CURVES = 12
"""Scores of a measure in one chart, the last ones, which the headline is of; the scorecard has all of them."""

BANDS = 8
"""Curves that have a band each; of more, the last one alone, for so many bands are one grey."""
WIDEST = 10
"""Characters of a checkpoint's name below its place, at most."""


@dataclass(frozen=True)
class Fluctuation:
    """How much accuracies of classes fluctuate: as text, and class by class."""

    measure: str
    text: str
    noise: str
    classes: list[tuple[str, str]]
    note: str


@dataclass(frozen=True)
class Training:
    """One series: its checkpoints, a chart for every measure, and fluctuations."""

    name: str
    checkpoints: list[str]
    panels: list[Panel]
    fluctuations: list[Fluctuation] = field(default_factory=list)


@dataclass(frozen=True)
class Trainings:
    """All series; `together` compares them by headlines, where there are two or more."""

    together: list[Panel]
    each: list[Training]


def trainings(record: Record) -> Trainings | None:
    """Return what is shown of the series of a record; None where it has none."""
    if not record.series:
        return None
    together = _together(record) if len(record.series) > 1 else []
    return Trainings(together, [_training(f"series{i}", record, training) for i, training in enumerate(record.series)])


def _training(key: str, record: Record, training: SeriesEntry) -> Training:
    panels = []
    for number_, (name, title) in enumerate(titles(record).items()):
        panels += _panels(f"{key}-{number_}", title, training.encoders, _entries(record, training, name))
    fluctuations = [_fluctuation(record, name, entry) for name, entry in training.fluctuation.items()]
    return Training(training.name, list(training.encoders), panels, fluctuations)


def _entries(record: Record, training: SeriesEntry, measure: str) -> list[MeasureEntry | None]:
    """Return what a measure found at each checkpoint; None where it was not asked."""
    by_name = {encoder.name: encoder.measures.get(measure) for encoder in record.encoders}
    return [by_name[name] for name in training.encoders]


def _panels(key: str, title: str, names: Sequence[str], entries: Sequence[MeasureEntry | None]) -> list[Panel]:
    """Return a chart for the scores of each unit, the headline's first."""
    # The unit of each score
    unit = _find_unit(entries)
    units: dict[str, str] = {}  # score -> its unit
    for m in filter(None, entries):
        for name, s in m.scores.items():
            units.setdefault(name, s.unit or unit)

    # A chart for each unit, with the curves that have two points or more
    across, panels = places(names), []
    for i, axis_unit in enumerate(dict.fromkeys([*reversed(units.values())])):
        scores = [name for name in units if units[name] == axis_unit]
        curves = {
            name: _curve(j, name, across, [find_score(m, name) for m in entries]) for j, name in enumerate(scores)
        }
        drawn = [name for name in scores if sum(map(finite, curves[name].y)) > 1]
        if not drawn:
            continue
        shown = drawn[-CURVES:]  # the headline comes last
        bands = len(shown) <= BANDS
        shaded = [curves[name] if bands or name == shown[-1] else _bare(curves[name]) for name in shown]
        picture = Lines(f"{key}-{i}", shaded[::-1], across, label="", unit=axis_unit)
        left = len(drawn) - len(shown)
        notes = [f"{plural(left, 'more score')} in the scorecard."] if left else []
        notes += [] if bands else [f"The band is that of {shown[-1]}."]
        notes += _cautions(names, [find_score(m, name) for name in shown for m in entries])
        alt = f"{title} over {plural(len(names), 'checkpoint')}. {_ends(shown[-1], names, entries, unit)}"
        panels.append(Panel(title, picture, alt, notes, [(scores.index(name), name) for name in shown]))
    return panels


def _find_unit(entries: Sequence[MeasureEntry | None]) -> str:
    return next((m.unit for m in entries if m and m.unit), "ratio")


def _bare(curve: Curve) -> Curve:
    return replace(curve, low=(), high=())


def _cautions(names: Sequence[str], scores: Sequence[Score]) -> list[str]:
    """Return a sentence for each checkpoint of which some score failed a check."""
    sentences = (caution(names[place % len(names)], s) for place, s in enumerate(scores))
    return list(dict.fromkeys(filter(None, sentences)))


def places(names: Sequence[str]) -> Horizontal:
    """Return the axis of checkpoints: by the number in their names, where one alone tells them apart, else one by one.

    For example "epoch2", "epoch10" at 2 and 10 of an axis "epoch".
    """
    split = [re.split(r"([0-9]+)", name) for name in names]
    if len({tuple(parts[::2]) for parts in split}) == 1:  # what is no number is the same everywhere
        different = [i for i, column in enumerate(zip(*split, strict=True)) if len(set(column)) > 1]
        numbers = [int(parts[different[0]]) for parts in split] if different else []
        if len(different) == 1 and all(a < b for a, b in pairwise(numbers)):
            words = re.findall(r"[^\W\d_]+", split[0][different[0] - 1])
            return Horizontal(words[-1] if words else "checkpoint", numbers, whole=True)
    short = [name if len(name) <= WIDEST else f"…{name[1 - WIDEST :]}" for name in names]
    return Horizontal("checkpoint", list(range(1, len(names) + 1)), short)


def _curve(series: int, name: str, across: Horizontal, scores: Sequence[Score]) -> Curve:
    y, low, high, bounds = zip(*map(unpack_score, scores), strict=True)
    return Curve(across.at, y, low, high, colour(series), marker(series), hollow=bounds, name=name)


def _ends(name: str, names: Sequence[str], entries: Sequence[MeasureEntry | None], unit: str) -> str:
    """Return a score at the first and at the last checkpoint that have it, in words."""
    scores = zip(names, [find_score(m, name) for m in entries], strict=True)
    scored = [(place, s) for place, s in scores if finite(s.value)]
    (first, before), (last, after) = scored[0], scored[-1]
    return f"{name}: {score(before, unit)} at {first}, {score(after, unit)} at {last}."


def _together(record: Record) -> list[Panel]:
    """Return a chart of each measure's headline, one curve for each series."""
    panels = []
    for i, (measure, title) in enumerate(titles(record).items()):
        curves, legend, axes, notes = [], list[tuple[int, str]](), [], []
        for j, run in enumerate(record.series):
            entries, across = _entries(record, run, measure), places(run.encoders)
            scores = [find_score(m, m and m.headline) for m in entries]
            curve = _curve(j, run.name, across, scores)
            if sum(map(finite, curve.y)) > 1:
                curves.append(curve)
                legend.append((j, run.name))
                axes.append(across.label)
                notes += _cautions(run.encoders, scores)
        if len(curves) < 2:
            continue
        unit = _find_unit([m for run in record.series for m in _entries(record, run, measure)])
        axis = Horizontal(axes[0] if len(set(axes)) == 1 else "checkpoint", whole=True)
        picture = Lines(f"together{i}", curves, axis, label="", unit=unit)
        alt = f"{title}, the headline, over the checkpoints of {', '.join(name for _, name in legend)}."
        panels.append(Panel(title, picture, alt, notes, [*legend]))
    return panels


def _fluctuation(record: Record, measure: str, entry: FluctuationEntry) -> Fluctuation:
    title = titles(record).get(measure, measure)
    if entry.problem or entry.mean is None or entry.classes is None:
        return Fluctuation(title, "", "", [], entry.problem or "not known")
    classes = [(name, number(value, "share")) for name, value in entry.classes.items()]
    return Fluctuation(title, score(entry.mean, "share"), number(entry.noise, "share"), classes, entry.mean.note)
