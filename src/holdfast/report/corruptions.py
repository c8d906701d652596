"""What corruptions do, one row for each, and which measure tells what another will say: as data for the report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.report.cells import unpack_score
from holdfast.report.charts.points import Cloud, Scattered
from holdfast.report.numbers import BETTER, finite, plural, score
from holdfast.report.panel import Panel
from holdfast.report.verdict import titles
from holdfast.storage.record import Record, RelationEntry

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


def corruption_grids(record: Record) -> list[Grid]:
    """Return a table for each encoder with scores of the same corruptions."""
    grids = []
    for series, encoder in enumerate(record.encoders):
        measures = [m for m in encoder.measures.values() if m.corruptions and m.scores]
        if not measures:
            continue
        names = list(dict.fromkeys(name for m in measures for name in m.corruptions))
        names += [name for name in ("average",) if any(name in m.scores for m in measures)]
        rows = [
            (name, [score(m.scores[name], m.unit) if name in m.scores else "–" for m in measures]) for name in names
        ]
        columns = [f"{m.title} {BETTER[m.better][0]}" for m in measures]
        grids.append(Grid(series, encoder.name, columns, rows))
    return grids


def relation_rows(record: Record, over: str) -> list[Relation]:
    """Return all relations over "encoders" or over "corruptions", those that go together most first."""
    names = titles(record)
    return [
        Relation(
            names[item.first],
            names[item.second],
            item.encoder or "",
            item.points,
            score(item.pearson, "ratio"),
            score(item.spearman, "ratio"),
        )
        for item in _strongest(record, over)
    ]


def relation_charts(record: Record, over: str) -> list[Panel]:
    """Return scatter plots of the strongest relations, one for each pair of measures."""
    charts: dict[tuple[str, str], Panel] = {}
    names, units = titles(record), _units(record)
    for item in _strongest(record, over):
        pair = item.first, item.second
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


def _strongest(record: Record, over: str) -> list[RelationEntry]:
    relations = [item for item in record.relations if item.over == over]
    return sorted(relations, key=lambda item: -abs(item.spearman.value or 0.0))


def _units(record: Record) -> dict[str, str]:
    return {key: m.unit for e in record.encoders for key, m in e.measures.items()}


def _clouds(record: Record, pair: Sequence[str], over: str) -> list[Cloud]:
    """Return the points of each encoder: one with both headlines, or one for each corruption; bounds apart."""
    clouds = []
    for series, encoder in enumerate(record.encoders):
        first, second = (encoder.measures.get(key) for key in pair)
        if first is None or second is None:
            continue
        scores = [(first.headline_score, second.headline_score)]
        if over == "corruptions":
            scores = [(first.scores.get(n), second.scores.get(n)) for n in first.corruptions if n in second.corruptions]
        drawn = [(unpack_score(a), unpack_score(b)) for a, b in scores if a and b]
        for hollow in (False, True):
            points = [(x, y) for (x, _, _, a), (y, _, _, b) in drawn if (a or b) == hollow]
            points = [point for point in points if all(map(finite, point))]
            if points:
                clouds.append(Cloud(series, *np.array(points, dtype=float).T, hollow=hollow, name=encoder.name))
    return clouds
