"""What corruptions do, one row for each, and which measure tells what another will say: as data for the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.report.cells import Drawn, unpack_score
from holdfast.report.charts.points import Cloud, Scattered
from holdfast.report.numbers import BETTER, finite, plural, score
from holdfast.report.panel import Panel
from holdfast.report.verdict import titles

DRAWN = 6
"""Charts of each kind of relation; the tables have all of them."""
HOLLOW = "Hollow: a check failed, so at least one of the two is a one-sided bound."


@dataclass(frozen=True)
class Grid:
    """One encoder under corruptions.

    Attributes:
        series: number of the encoder.
        name: of the encoder.
        columns: titles of the measures, with an arrow to where they are better.
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
        measures = {
            key: m for key, m in encoder.get("measures", {}).items() if m.get("corruptions") and m.get("scores")
        }
        if not measures:
            continue
        names = list(dict.fromkeys(name for m in measures.values() for name in m["corruptions"]))
        names += [name for name in ("average",) if any(name in m["scores"] for m in measures.values())]
        rows = [
            (name, [score(m["scores"][name], m["unit"]) if name in m["scores"] else "–" for m in measures.values()])
            for name in names
        ]
        columns = [f"{m['title']} {BETTER[m['better']][0]}" for m in measures.values()]
        grids.append(Grid(series, encoder["name"], columns, rows))
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


def relation_charts(record: Mapping[str, Any], over: str) -> list[Panel]:
    """Return scatter plots of the strongest relations, one for each pair of measures."""
    charts: dict[tuple[str, str], Panel] = {}
    names, units = titles(record), _units(record)
    for item in _strongest(record, over):
        pair = item["first"], item["second"]
        if pair in charts or len(charts) == DRAWN:
            continue
        clouds = _clouds(record, pair, over)
        if not clouds:
            continue
        x, y = (names[key] for key in pair)
        picture = Scattered(
            f"{over}{len(charts)}", clouds, across=x, label=y, units=(units[pair[0]], units[pair[1]]), diagonal=False
        )
        total = sum(len(cloud.x) for cloud in clouds)
        alt = f"{y} against {x}, {plural(total, 'point')}, one for each of the {over}; the numbers are in the tables."
        charts[pair] = Panel(
            f"{y} against {x}", picture, alt, [HOLLOW] if any(cloud.hollow for cloud in clouds) else []
        )
    return list(charts.values())


def _strongest(record: Mapping[str, Any], over: str) -> list[Mapping[str, Any]]:
    relations = [item for item in record.get("relations") or [] if item["over"] == over]
    return sorted(relations, key=lambda item: -abs(item["spearman"]["value"] or 0.0))


def _units(record: Mapping[str, Any]) -> dict[str, str]:
    return {key: m["unit"] for e in record["encoders"] for key, m in e.get("measures", {}).items()}


def _clouds(record: Mapping[str, Any], pair: Sequence[str], over: str) -> list[Cloud]:
    """Return the points of each encoder: one with both headlines, or one for each corruption; bounds apart."""
    clouds = []
    for series, encoder in enumerate(record["encoders"]):
        first, second = (encoder.get("measures", {}).get(key) or {} for key in pair)
        names = [n for n in first.get("corruptions") or [] if n in (second.get("corruptions") or [])]
        places = [(n, n) for n in names] if over == "corruptions" else [(first.get("headline"), second.get("headline"))]
        scores = [(first["scores"].get(a) or {}, second["scores"].get(b) or {}) for a, b in places if a and b]
        for hollow in (False, True):
            points = [(x, y) for (x, _, _, a), (y, _, _, b) in _unpack_pairs(scores) if (a or b) == hollow]
            points = [point for point in points if all(map(finite, point))]
            if points:
                clouds.append(Cloud(series, *np.array(points, dtype=float).T, hollow=hollow, name=encoder["name"]))
    return clouds


def _unpack_pairs(scores: Iterable[Sequence[Mapping[str, Any]]]) -> list[tuple[Drawn, Drawn]]:
    return [(unpack_score(first), unpack_score(second)) for first, second in scores]
