"""The charts that a record asks for, gathered: those of one heading in one section, whatever parts they come from."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from holdfast.report.apart import Apart
from holdfast.report.brief import best_first
from holdfast.report.charts.kinds import KINDS, Contribution
from holdfast.report.charts.twins import disambiguate
from holdfast.report.panel import Panel
from holdfast.storage.chart import ChartEntry, RowEntry
from holdfast.storage.record import Record
from holdfast.storage.record_file import RunFiles


@dataclass(frozen=True)
class Section:
    """Charts that stand together.

    Attributes:
        key: its name in links.
        heading: its title.
        how_to_read: what its charts show.
        panels: the charts.
        short: what files with them are called; "" for the heading.
    """

    key: str
    heading: str
    how_to_read: str
    panels: list[Panel]
    short: str = ""


def chart_sections(record: Record, folder: RunFiles, apart: Apart) -> list[Section]:
    """Return all sections of charts; a chart that cannot be drawn is named among the problems of `apart`."""
    sections = []
    for number, (heading, charts) in enumerate(_group_by_heading(record).items()):
        panels = []
        for place, (title, parts) in enumerate(_title_charts(charts)):
            draw, key = KINDS[type(parts[0].chart)], f"chart{number}-{place}"
            drawn = apart(heading, lambda d=draw, k=key, t=title, p=parts: d(k, t, p, folder), [])
            whose = parts[0].key if _keys(charts).count(parts[0].key) == 1 else f"{parts[0].key} {title}"
            panels += [replace(p, source=whose if p.series is None else f"{whose} {p.title}") for p in drawn]
        if panels:
            shown = [part.chart for parts in charts.values() for part in parts]
            how_to_read = max((chart.how_to_read for chart in shown), key=len)  # of the one that draws the most
            sections.append(Section(f"charts-{number}", heading, how_to_read, panels, shown[0].short))
    return sections


def first_chart(record: Record, folder: RunFiles) -> Section | None:
    """Return the chart that a report begins with, drawn for that place: of a measure that answers in words, if any."""
    everything = [parts for charts in _group_by_heading(record).values() for parts in charts.values()]
    answering = [parts for parts in everything if any(p.measure and p.measure.in_words for p in parts)]
    for parts in answering or everything[:1]:
        chart, measure = parts[0].chart, parts[0].measure
        shared = answering or isinstance(chart, RowEntry)  # rows are of several measures
        title = (measure.title if measure and not shared else "") or chart.heading
        if panels := KINDS[type(chart)]("first", title, parts, folder):
            how_to_read = max((part.chart.how_to_read for part in parts), key=len)
            return Section("first", chart.heading, how_to_read, panels)
    return None


Charts = dict[tuple[type[ChartEntry], str, str], list[Contribution[ChartEntry]]]
"""What belongs to one chart, by what sets it apart from others of its section."""


def _keys(charts: Charts) -> list[str]:
    return [parts[0].key for parts in charts.values()]


def _group_by_heading(record: Record) -> dict[str, Charts]:
    """Return heading -> its charts; headings in the order of `KINDS`, then as the record has them."""
    gathered: dict[str, Charts] = {}
    for part, source in _list_contributions(record):
        kind, chart = type(part.chart), part.chart
        gathered.setdefault(chart.heading, {}).setdefault((kind, chart.title, source), []).append(part)
    order = list(KINDS)
    first = {heading: min(order.index(kind) for kind, *_ in charts) for heading, charts in gathered.items()}
    return dict(sorted(gathered.items(), key=lambda item: first[item[0]]))


def _list_contributions(record: Record) -> Iterator[tuple[Contribution[ChartEntry], str]]:
    """Yield all charts of a record, each with its source: its measure; of rows, their setting."""
    # where a measure failed, the row that it has elsewhere says why it is missing
    measures = [(key, m) for e in record.encoders for key, m in e.measures.items()]
    rows = {key: chart for key, m in measures for chart in m.charts if isinstance(chart, RowEntry)}
    for series, encoder in best_first(record):
        for key, m in encoder.measures.items():
            for chart in m.charts or ([rows[key]] if m.error and key in rows else []):
                yield Contribution(series, encoder.name, chart, m, key), _find_source(chart, key)
        for observation in encoder.observations:
            for chart in observation.charts:
                yield Contribution(series, encoder.name, chart, None), _find_source(chart, "")
    # of two encoders, in the colour of the first
    names = [encoder.name for encoder in record.encoders]
    for key, compared in record.comparison.items():
        for contrast in compared.charts:
            yield Contribution(names.index(contrast.first), contrast.first, contrast.chart, None), key


def _find_source(chart: ChartEntry, key: str) -> str:
    """Return the measure of a chart; rows of several measures are one chart where they agree on title and setting."""
    return json.dumps(chart.setting) if isinstance(chart, RowEntry) else key


def _title_charts(charts: Charts) -> Iterator[tuple[str, list[Contribution[ChartEntry]]]]:
    """Yield (title, parts) of each chart; titles that read the same are told apart."""
    twins = Counter(title for _, title, _ in charts)
    names, settings = [], []
    for (_, title, _), parts in charts.items():
        chart, measure = parts[0].chart, parts[0].measure
        setting = chart.setting if isinstance(chart, RowEntry) else []
        source = measure.title if measure and not isinstance(chart, RowEntry) else ""
        names.append(": ".join(filter(None, [source, title])) if twins[title] > 1 else title or source)
        settings.append({name: _parse_value(value) for name, value in setting})
    yield from zip(disambiguate(names, settings), charts.values(), strict=True)


def _parse_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
