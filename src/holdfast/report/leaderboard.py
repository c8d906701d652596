"""The leaderboard: groups of comparable audits in one HTML file that opens offline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from holdfast.numerics.statistics.score import Score
from holdfast.report.apart import Apart
from holdfast.report.cells import NO_SCORE
from holdfast.report.charts.kinds import Contribution, draw_together
from holdfast.report.charts.points import Cross, Front
from holdfast.report.documents.comparison import (
    explain_doubt,
    first_names,
    heading,
    leader,
    noun,
    p_text,
    rank,
    scope,
    trust,
)
from holdfast.report.documents.comparison import front as front_sentence
from holdfast.report.names import shorten_names
from holdfast.report.numbers import BETTER, count, finite, format_score, format_score_inline, listing, plural
from holdfast.report.page import page
from holdfast.report.panel import Panel
from holdfast.report.scorecard import axis, flaw, place, place_ends, say_unranked
from holdfast.storage.comparison import ComparedMeasure, Comparison, Leaderboard, RankedRow, Unreadable
from holdfast.storage.standing import SOUND, VOID

SCRIPTS = ("script.js", "sort.js")

PAIRS = 1000
"""Pairs of encoders that are listed of a measure; of more, those with the first."""


@dataclass(frozen=True)
class Cell:
    """One encoder on one measure: text, the number to sort by, and the ends of its bar in percent of the column."""

    value: str
    interval: str
    rank: str
    best: bool
    sort: float | None
    at: float | None
    start: float | None
    end: float | None
    remark: str
    doubt: str


def render(data: Leaderboard, title: str = "Leaderboard") -> str:
    """Return groups of comparisons as one page of HTML; every name is escaped."""
    apart, groups = Apart(), []
    for number_, comparison in enumerate(data.groups, 1):
        pairs = {name: len(m.pairs) for name, m in comparison.measures.items()}
        shown, wholes = shorten_names(_with_fewer_pairs(comparison))
        section = ", ".join(encoder.name for encoder in shown.encoders)
        groups.append(apart(section, lambda n=number_, c=shown, w=wholes, p=pairs: _group(n, c, w, p), None))
    lost = [Unreadable(place=section, reason=f"could not be drawn: {why}") for section, why in apart.problems]
    values = {"title": title, "groups": [g for g in groups if g], "unreadable": [*data.unreadable, *lost]}
    return page("leaderboard.html", SCRIPTS, **values)


def _with_fewer_pairs(data: Comparison) -> Comparison:
    """Return a comparison with those pairs alone that people read, of very many: with the encoder that stands first."""
    measures = {}
    for name, m in data.measures.items():
        first, pairs = m.rows[0].encoder, m.pairs
        if len(pairs) > PAIRS:
            pairs = [pair for pair in pairs if first in (pair.first, pair.second)]
        measures[name] = replace(m, pairs=pairs)
    return replace(data, measures=measures)


def _group(index: int, data: Comparison, wholes: Mapping[str, str], pairs: Mapping[str, int]) -> dict[str, Any]:
    """Return what is shown of a comparison with short names; `pairs`: how many each measure has, listed or not."""
    series = {encoder.name: i for i, encoder in enumerate(data.encoders)}
    first, everything = first_names(data), list(data.measures)
    order = [row.encoder for row in data.measures[first[0]].rows]
    return {
        "key": f"g{index}",
        "data": data,
        "scope": scope(data),
        "noun": noun(data),
        "seeds": {heading(m, name): seeds for name, m in data.measures.items() if (seeds := _seeds(m))},
        "leader": leader(data),
        "trusts": {encoder.name: trust(encoder) for encoder in data.encoders},
        "wholes": wholes,
        "first": _board(data, first, order, series),
        "all": _board(data, everything, order, series) if len(everything) > len(first) else None,
        "encoders": [(i, name) for name, i in series.items()],
        "pairs": {
            _format_heading(heading(m, name), len(m.pairs), pairs[name]): _pairs(m)
            for name, m in data.measures.items()
            if m.pairs
        },
        "contrasts": _contrasts(f"g{index}", data, series),
        "pareto": pareto(f"pareto-g{index}", data, series),
    }


def _board(data: Comparison, names: Sequence[str], order: Sequence[str], series: Mapping[str, int]) -> dict[str, Any]:
    """Return a table of some measures: its heads, and (number, encoder, cells) for each row."""
    measures = {name: data.measures[name] for name in names}
    columns = [_column(m, data) for m in measures.values()]
    return {
        "heads": [(heading(m, name), BETTER[m.better], m.question) for name, m in measures.items()],
        "rows": [(series[name], name, [cells[name] for cells in columns]) for name in order],
    }


def _column(m: ComparedMeasure, data: Comparison) -> dict[str, Cell]:
    scores = [row.score for row in m.rows if row.score]
    ticks = axis([end for s in scores for end in (s.value, s.low, s.high) if finite(end)], m.unit)
    return {row.encoder: _cell(row, m, ticks, explain_doubt(row, data)) for row in m.rows}


def _cell(row: RankedRow, m: ComparedMeasure, ticks: list[int | float], doubt: str) -> Cell:
    s = row.score or NO_SCORE
    valued = finite(s.value)
    value, within = format_score(s, m.unit, m.levels)
    start, end = place_ends(s, ticks)
    return Cell(
        value=value if valued else "–",
        interval=within if valued else "",
        rank=rank(row) if row.rank else "",
        best=row.best,
        sort=s.value if valued and s.standing == SOUND else None,  # else last, whichever way
        at=place(s.value, ticks) if s.standing != VOID else None,
        start=start,
        end=end,
        remark=row.why_not or flaw(s),
        doubt=doubt,
    )


def _pairs(m: ComparedMeasure) -> list[tuple[str, str, str, str, str]]:
    out = {row.encoder for row in m.rows if row.why_not}
    return [
        (
            pair.first, pair.second, format_score_inline(pair.difference, m.unit, m.levels),
            p_text(pair.p_adjusted),
            say_unranked(pair, out) or (f"favours {pair.winner}" if pair.winner else "undecided"),
        )
        for pair in m.pairs
    ]  # fmt: skip


def _seeds(m: ComparedMeasure) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each method on a measure with its seeds and their numbers."""
    return [
        (row.encoder, [(seed, format_score_inline(score, m.unit, m.levels)) for seed, score in row.seeds.items()])
        for row in m.rows
        if row.seeds
    ]


def _format_heading(title: str, listed: int, pairs: int) -> str:
    """Return the heading of the pairs of a measure, with how many there are where not all are listed."""
    if listed == pairs:
        return title
    return f"{title}: {count(listed)} of {plural(pairs, 'pair')}, those of the first (--json has all)"


def _contrasts(key: str, data: Comparison, series: Mapping[str, int]) -> dict[str, tuple[str, list[Panel]]]:
    """Return heading -> how to read it, and the charts of pairs of encoders below it."""
    sections: dict[str, tuple[str, list[Panel]]] = {}
    for column, m in enumerate(data.measures.values()):
        for number_, contrast in enumerate(m.charts):
            chart, first = contrast.chart, contrast.first
            part = Contribution(series[first], first, chart, None)
            _, panels = sections.setdefault(chart.heading, (chart.how_to_read, []))
            panels.append(draw_together(f"contrast-{key}-{column}-{number_}", chart.title, [part]))
    return sections


def pareto(key: str, data: Comparison, series: Mapping[str, int]) -> Panel | None:
    """Return the chart of the two measures that are drawn against each other; None where fewer than two can be."""
    entry = data.pareto
    names = [name for name in (entry.x, entry.y) if name]
    drawn = [(p, x, y) for p in entry.points if (x := _ends(p.x)) and (y := _ends(p.y))]
    if entry.why_not or len(names) < 2 or len(drawn) < 2:
        return None
    axes = [data.measures[name] for name in names]
    titles = [heading(m, name) for m, name in zip(axes, names, strict=True)]
    points = [Cross(series[p.encoder], x, y, not p.dominated_by, p.encoder) for p, x, y in drawn]
    picture = Front(
        key, points, across=f"{titles[0]} ({BETTER[axes[0].better]})",
        label=f"{titles[1]} ({BETTER[axes[1].better]})", units=(axes[0].unit, axes[1].unit),
        better=(axes[0].better, axes[1].better),
    )  # fmt: skip
    notes = [f"Filled: no other {noun(data)} is better on both by its verdicts. Crosses are 95 % intervals."]
    notes += [f"{p.encoder} is dominated by {listing(p.dominated_by, 4)}." for p, _, _ in drawn if p.dominated_by]
    title = f"{titles[1]} against {titles[0].lower()}"
    return Panel(title=title, drawing=picture, alt=f"{title}. {front_sentence(data)}", notes=notes)


def _ends(s: Score) -> tuple[float, float, float] | None:
    """Return a value with the ends of its interval, itself where it has none; None where it has no value."""
    if not finite(s.value):
        return None
    return s.value, s.low if finite(s.low) else s.value, s.high if finite(s.high) else s.value
