"""The parts of the report that need files or drawing: charts and the gallery of worst images, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.report import plots
from holdfast.report.folder import Picture, finite_part, read_column, read_picture
from holdfast.report.numbers import finite, number, plural, steps_of
from holdfast.report.verdict import titles
from holdfast.runtime.errors import HoldfastError
from holdfast.storage.record_file import RunFiles


@dataclass(frozen=True)
class Chart:
    """One chart: heading, SVG, what it says to those who cannot see it, and which encoders are in it."""

    title: str
    svg: str
    alt: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Shot:
    """One picture of the gallery; `picture` is None where the file is missing, `problem` says so."""

    caption: str
    alt: str
    picture: Picture | None
    problem: str = ""


@dataclass(frozen=True)
class Worst:
    """One attacked image: the three pictures of it and its clean neighbours before and after."""

    id: str
    text: str
    shots: list[Shot]
    before: list[Shot]
    after: list[Shot]


@dataclass(frozen=True)
class Impersonations:
    """One attack that gives images the representations of another class: rows of pictures, a pair in each column."""

    title: str
    text: str
    rows: dict[str, list[Shot]]


def score_charts(record: Mapping[str, Any]) -> list[Chart]:
    """Return one chart per measure that was read out at two or more step counts."""
    charts = []
    for i, (key, title) in enumerate(titles(record).items()):
        curves, unit = [], "ratio"
        for series, encoder in enumerate(record["encoders"]):
            m = encoder.get("measures", {}).get(key)
            if not m or not (points := _readouts(m)):
                continue
            unit = m["unit"]
            columns = [[_nan(s.get(k)) for _, s in points] for k in ("value", "low", "high")]
            curves.append(plots.Curve(series, [step for step, _ in points], *columns))
        if curves:
            svg = plots.lines(f"score{i}", curves, unit=unit, label="")
            alt = (
                f"{title} against attack steps for {plural(len(curves), 'encoder')}; the numbers are in the scorecard."
            )
            charts.append(Chart(title, svg, alt))
    return charts


def _readouts(m: Mapping[str, Any]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return (steps, score) of the read-outs that belong to the headline, at least two with a value."""
    headline = steps_of(m.get("headline") or "")
    found = [(steps_of(name), s) for name, s in m["scores"].items()]
    points = sorted(
        ((at[1], s) for at, s in found if at and headline and at[0] == headline[0]), key=lambda point: point[0]
    )
    return points if sum(finite(s.get("value")) for _, s in points) >= 2 else []


def _nan(value: Any) -> float:
    return float(value) if finite(value) else float("nan")


def objective_charts(record: Mapping[str, Any]) -> list[Chart]:
    """Return one chart per attack: what the adversary maximised against its steps, 10/50/90 % over images."""
    by_title: dict[str, list[plots.Curve]] = {}
    for series, encoder in enumerate(record["encoders"]):
        for c in (chart for seen in encoder.get("observations", []) for chart in seen.get("charts", [])):
            line = c["lines"][0]
            median, low, high = ([_nan(v) for v in line[k]] for k in ("y", "low", "high"))
            by_title.setdefault(c["title"], []).append(plots.Curve(series, line["x"], median, low, high))
    return [
        Chart(
            title,
            plots.lines(f"objective{i}", curves, unit="ratio", label="objective", markers=False),
            f"Attack objective against steps, {title}: median and 10 to 90 % of the images "
            f"for {plural(len(curves), 'encoder')}.",
        )
        for i, (title, curves) in enumerate(by_title.items())
    ]


def histograms(record: Mapping[str, Any], folder: RunFiles) -> list[Chart]:
    """Return one chart per measure with a headline column; a table that cannot be read is named in its notes."""
    charts = []
    for i, (key, title) in enumerate(titles(record).items()):
        values, notes, label = [], [], ""
        for series, encoder in enumerate(record["encoders"]):
            m = encoder.get("measures", {}).get(key)
            if not m or m.get("error") or not m.get("column") or not m.get("table"):
                continue
            if m.get("part", {}).get("name") == "synbench":
                continue  # its rows are no images
            label = f"{m['column']} per image"
            try:
                column = read_column(folder, m["table"], m["column"])
            except HoldfastError as error:
                notes.append(f"{encoder['name']}: {error}")
                continue
            shown = finite_part(column)
            if len(shown) < len(column):
                notes.append(f"{encoder['name']}: {plural(len(column) - len(shown), 'undefined value')} not drawn.")
            if len(shown):
                values.append((series, shown))
        if values and all(np.isin(v, (0, 1)).all() for _, v in values):
            continue  # yes or no per image: the score says all there is
        if values:
            medians = ", ".join(f"{record['encoders'][s]['name']} {number(float(np.median(v)))}" for s, v in values)
            alt = f"Histogram of {label}, {title}. Medians: {medians}."
            charts.append(Chart(title, plots.histogram(f"histogram{i}", values, label=label), alt, notes))
        elif notes:
            charts.append(Chart(title, "", "", notes))
    return charts


def tightness_charts(record: Mapping[str, Any], folder: RunFiles) -> list[Chart]:
    """Return one chart per measure of tightness: the bound of a margin against what an attack found of it."""

    def draw(i: int, title: str, encoders: list[tuple[int, list[np.ndarray]]]) -> tuple[str, str]:
        points = [(series, found, lower) for series, (found, lower) in encoders]
        svg = plots.scatter(f"tightness{i}", points, x="margin after the attack", y="certified margin")
        return (
            svg,
            f"{title}: certified margin against attacked margin, one point per image, clean one = 1.",
        )

    return _charts_of("tightness", lambda measure: ("found", "lower"), draw, record, folder)


def margin_charts(record: Mapping[str, Any], folder: RunFiles) -> list[Chart]:
    """Return one chart per measure of margin distributions: Ψ against the distance to the original."""

    def columns(measure: Mapping[str, Any]) -> tuple[str, ...]:
        return "shape", "scale", f"distance@{measure['column'].partition('@')[2]}"

    def draw(i: int, title: str, encoders: list[tuple[int, list[np.ndarray]]]) -> tuple[str, str]:
        svg = plots.margin_distribution(f"margin{i}", [plots.Margins(series, *values) for series, values in encoders])
        return svg, f"{title}: the probability of being a positive sample against the distance to the original."

    return _charts_of("margin_distribution", columns, draw, record, folder)


def _charts_of(
    part: str,
    columns: Callable[[Mapping[str, Any]], tuple[str, ...]],
    draw: Callable[[int, str, list[tuple[int, list[np.ndarray]]]], tuple[str, str]],
    record: Mapping[str, Any],
    folder: RunFiles,
) -> list[Chart]:
    """Return one chart per measure of a name, drawn from columns of its tables where all of them are finite.

    Args:
        part: name of the measure.
        columns: which columns a measure's chart needs.
        draw: (number of the chart, title, (series, columns) of each encoder) to the picture and its description.
        record: the record.
        folder: where its tables lie.
    """
    charts = []
    for i, (key, title) in enumerate(titles(record).items()):
        encoders, notes = [], []
        for series, encoder in enumerate(record["encoders"]):
            m = encoder.get("measures", {}).get(key)
            if not m or m.get("part", {}).get("name") != part or not m.get("table"):
                continue
            try:
                values = [read_column(folder, m["table"], column) for column in columns(m)]
            except HoldfastError as error:
                notes.append(f"{encoder['name']}: {error}")
                continue
            shown = np.all([np.isfinite(value) for value in values], axis=0)
            if not shown.all():
                notes.append(f"{encoder['name']}: {plural(int((~shown).sum()), 'undefined value')} not drawn.")
            if shown.any():
                encoders.append((series, [value[shown] for value in values]))
        if encoders:
            charts.append(Chart(title, *draw(i, title, encoders), notes))
        elif notes:
            charts.append(Chart(title, "", "", notes))
    return charts


def extremes(encoder: Mapping[str, Any], folder: RunFiles) -> dict[str, list[Shot]]:
    """Return pictures of the least and of the most robust images of one encoder, with their radii."""
    found = encoder.get("extremes") or {}
    return {
        title: [
            _shot(
                folder,
                e["picture"],
                f"[{_short(e['attack'])}, {_short(e['certificate'])}]",
                f"{e['id']}: certified radius {_short(e['certificate'])}",
            )
            for e in found.get(side, [])
        ]
        for side, title in (("least", "least robust"), ("most", "most robust"))
    }


def impersonations(encoder: Mapping[str, Any], folder: RunFiles) -> list[Impersonations]:
    """Return the attacks of one encoder that impersonate, with pictures of some pairs, where there are any."""
    found = encoder.get("impersonations") or []
    return [_impersonations(entry, folder) for entry in found if any(entry["sides"])]


def _impersonations(entry: Mapping[str, Any], folder: RunFiles) -> Impersonations:
    rows, taken, shown = {}, 0, 0
    classes, sides = entry["classes"], entry["sides"]
    for own, other, side in zip(classes, classes[::-1], sides, strict=True):
        rows[f"class {own}"] = [_shot(folder, e["clean"], e["id"], f"{e['id']}, of class {own}") for e in side]
        rows[f"class {own}, given the representation of class {other}"] = [
            _shot(folder, e["attacked"], f"probe says {e['said']}", f"{e['id']} attacked: the probe says {e['said']}")
            for e in side
        ]
        taken, shown = taken + sum(e["said"] == other for e in side), shown + len(side)
    text = f"{taken} of these {plural(shown, 'image')} are taken for the other class."
    return Impersonations(entry["title"], text, rows)


def _short(radius: Any) -> str:
    return f"{radius:.2g}" if finite(radius) else "–"


def gallery(encoder: Mapping[str, Any], folder: RunFiles) -> list[Worst]:
    """Return the worst images of one encoder with their pictures embedded."""
    return [_worst(entry, folder) for entry in encoder.get("gallery") or []]


def _worst(entry: Mapping[str, Any], folder: RunFiles) -> Worst:
    name = entry["id"]
    shots = [
        _shot(folder, entry[kind], caption, f"{name}: {alt}")
        for kind, caption, alt in (
            ("clean", "clean", "clean image"),
            ("attacked", "attacked", "attacked twin"),
            ("difference", "difference", "difference of the two, amplified"),
        )
    ]
    sides = [
        [
            _shot(folder, n["picture"], n["id"], f"clean image {n['id']}, neighbour {side} the attack")
            for n in entry[side]
        ]
        for side in ("before", "after")
    ]
    text = f"drift {number(entry.get('drift'))}"
    if finite(entry.get("quantile")):
        text += f", beyond {number(entry['quantile'], 'share')} of the distances between clean images"
    return Worst(name, text, shots, *sides)


def _shot(folder: RunFiles, relative: str, caption: str, alt: str) -> Shot:
    try:
        return Shot(caption, alt, read_picture(folder, relative))
    except HoldfastError as error:
        return Shot(caption, alt, None, str(error))
