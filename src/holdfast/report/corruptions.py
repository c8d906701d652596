"""What corruptions do, one row for each, and which measure tells what another will say: as data for the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.report import plots
from holdfast.report.numbers import finite, plural, score
from holdfast.report.sections import Chart
from holdfast.report.verdict import titles

DRAWN = 6
"""Charts of each kind of relation; the tables have all of them."""


@dataclass(frozen=True)
class Grid:
    """One encoder under corruptions.

    Attributes:
        series: number of the encoder.
        name: of the encoder.
        columns: titles of the measures.
        rows: (corruption, its scores as text in the order of the columns); the average last.
    """

    series: int
    name: str
    columns: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Relation:
    """How two measures go together, as text."""

    first: str
    second: str
    where: str
    points: int
    pearson: str
    spearman: str


def corruption_grids(record: Mapping[str, Any]) -> list[Grid]:
    """Return a table for each encoder with scores of the same corruptions."""
    grids = []
    for series, encoder in enumerate(record["encoders"]):
        found = {key: m for key, m in encoder.get("measures", {}).items() if m.get("corruptions") and m.get("scores")}
        if not found:
            continue
        names = list(dict.fromkeys(name for m in found.values() for name in m["corruptions"]))
        names += [name for name in ("average",) if any(name in m["scores"] for m in found.values())]
        rows = [
            (name, [score(m["scores"][name], m["unit"]) if name in m["scores"] else "–" for m in found.values()])
            for name in names
        ]
        grids.append(Grid(series, encoder["name"], [m["title"] for m in found.values()], rows))
    return grids


def relation_rows(record: Mapping[str, Any], over: str) -> list[Relation]:
    """Return all relations over "encoders" or over "corruptions", those that go together most first."""
    names = titles(record)
    return [
        Relation(
            names[item["first"]],
            names[item["second"]],
            item["encoder"] or "",
            item["points"],
            score(item["pearson"], "ratio"),
            score(item["spearman"], "ratio"),
        )
        for item in _strongest(record, over)
    ]


def relation_charts(record: Mapping[str, Any], over: str) -> list[Chart]:
    """Return scatter plots of the strongest relations, one for each pair of measures."""
    charts: dict[tuple[str, str], Chart] = {}
    names, units = titles(record), _units(record)
    for item in _strongest(record, over):
        pair = item["first"], item["second"]
        if pair in charts or len(charts) == DRAWN:
            continue
        points = _over_encoders(record, pair) if over == "encoders" else _over_corruptions(record, pair)
        if not points:
            continue
        x, y = (names[key] for key in pair)
        svg = plots.scatter(f"{over}{len(charts)}", points, x=x, y=y, units=(units[pair[0]], units[pair[1]]))
        total = sum(len(a) for _, a, _ in points)
        alt = f"{y} against {x}, {plural(total, 'point')}, one for each of the {over}; the numbers are in the tables."
        charts[pair] = Chart(f"{y} against {x}", svg, alt)
    return list(charts.values())


def _strongest(record: Mapping[str, Any], over: str) -> list[Mapping[str, Any]]:
    found = [item for item in record.get("relations") or [] if item["over"] == over]
    return sorted(found, key=lambda item: -abs(item["spearman"]["value"] or 0.0))


def _units(record: Mapping[str, Any]) -> dict[str, str]:
    return {key: m["unit"] for e in record["encoders"] for key, m in e.get("measures", {}).items()}


Points = list[tuple[int, np.ndarray, np.ndarray]]


def _over_encoders(record: Mapping[str, Any], pair: Sequence[str]) -> Points:
    """Return one point for each encoder with both headlines."""
    points: Points = []
    for series, encoder in enumerate(record["encoders"]):
        measures = [encoder.get("measures", {}).get(key) or {} for key in pair]
        values = [m["scores"][m["headline"]]["value"] if m.get("headline") else None for m in measures]
        points += _known(series, [values])
    return points


def _over_corruptions(record: Mapping[str, Any], pair: Sequence[str]) -> Points:
    """Return one point for each corruption of each encoder."""
    points: Points = []
    for series, encoder in enumerate(record["encoders"]):
        measures = [encoder.get("measures", {}).get(key) or {} for key in pair]
        names = [n for n in measures[0].get("corruptions") or [] if n in (measures[1].get("corruptions") or [])]
        points += _known(series, [[m["scores"].get(name, {}).get("value") for m in measures] for name in names])
    return points


def _known(series: int, values: Iterable[Sequence[Any]]) -> Points:
    known = [pair for pair in values if all(map(finite, pair))]
    return [(series, *np.array(known, dtype=float).T)] if known else []
