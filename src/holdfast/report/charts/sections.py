"""The charts that a record asks for, gathered: those of one heading in one section, whatever parts they come from."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.report.apart import Apart
from holdfast.report.charts.kinds import KINDS, Contribution
from holdfast.report.charts.twins import disambiguate
from holdfast.report.panel import Panel
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


def chart_sections(record: Mapping[str, Any], folder: RunFiles, apart: Apart) -> list[Section]:
    """Return all sections of charts; a chart that cannot be drawn is named among the problems of `apart`."""
    sections = []
    for number, (heading, charts) in enumerate(_group_by_heading(record).items()):
        panels = []
        for place, (title, parts) in enumerate(_title_charts(charts)):
            draw, key = KINDS[parts[0].chart["kind"]], f"chart{number}-{place}"
            drawn = apart(heading, lambda d=draw, k=key, t=title, p=parts: d(k, t, p, folder), [])
            whose = parts[0].key if _keys(charts).count(parts[0].key) == 1 else f"{parts[0].key} {title}"
            panels += [replace(p, source=whose if p.series is None else f"{whose} {p.title}") for p in drawn]
        if panels:
            shown = [part.chart for parts in charts.values() for part in parts]
            how_to_read = max((chart["how_to_read"] for chart in shown), key=len)  # of the one that draws the most
            sections.append(Section(f"charts-{number}", heading, how_to_read, panels, shown[0].get("short", "")))
    return sections


def first_chart(record: Mapping[str, Any], folder: RunFiles) -> Section | None:
    """Return the chart that a report begins with, drawn for that place: of a measure that answers in words, if any."""
    everything = [parts for charts in _group_by_heading(record).values() for parts in charts.values()]
    answering = [parts for parts in everything if any(p.measure.get("in_words") for p in parts)]
    for parts in answering or everything[:1]:
        chart = parts[0].chart
        shared = answering or chart["kind"] == "row"  # rows are of several measures
        title = chart["heading"] if shared else parts[0].measure.get("title") or chart["heading"]
        if panels := KINDS[chart["kind"]]("first", title, parts, folder):
            how_to_read = max((part.chart["how_to_read"] for part in parts), key=len)
            return Section("first", chart["heading"], how_to_read, panels)
    return None


Charts = dict[tuple[str, ...], list[Contribution]]
"""What belongs to one chart, by what sets it apart from others of its section."""


def _keys(charts: Charts) -> list[str]:
    return [parts[0].key for parts in charts.values()]


def _group_by_heading(record: Mapping[str, Any]) -> dict[str, Charts]:
    """Return heading -> its charts; headings in the order of `KINDS`, then as the record has them."""
    measures = [(key, m) for e in record["encoders"] for key, m in e.get("measures", {}).items()]
    # where a measure failed, the row that it has elsewhere says why it is missing
    rows = {key: chart for key, m in measures for chart in m.get("charts") or [] if chart["kind"] == "row"}
    gathered: dict[str, Charts] = {}
    for series, encoder in enumerate(record["encoders"]):
        charts = [
            (key, m, chart)
            for key, m in encoder.get("measures", {}).items()
            for chart in m.get("charts") or ([rows[key]] if m.get("error") and key in rows else [])
        ]
        charts += [
            ("", {}, chart)
            for observation in encoder.get("observations", [])
            for chart in observation.get("charts") or []
        ]
        for key, measure, chart in charts:
            # rows of several measures are one chart where they agree on title and setting
            source = json.dumps(chart["setting"]) if chart["kind"] == "row" else key
            together = gathered.setdefault(chart["heading"], {}).setdefault((chart["kind"], chart["title"], source), [])
            together.append(Contribution(series, encoder["name"], chart, measure, key))
    # of two encoders, in the colour of the first
    names = [encoder["name"] for encoder in record["encoders"]]
    for key, comparison in record["comparison"].items():
        for contrast in comparison.get("charts", []):
            chart, first = contrast["chart"], contrast["first"]
            source = (chart["kind"], chart["title"], key)
            together = gathered.setdefault(chart["heading"], {}).setdefault(source, [])
            together.append(Contribution(names.index(first), first, chart, {}))
    order = list(KINDS)
    first = {heading: min(order.index(kind) for kind, *_ in charts) for heading, charts in gathered.items()}
    return dict(sorted(gathered.items(), key=lambda item: first[item[0]]))


def _title_charts(charts: Charts) -> Iterator[tuple[str, list[Contribution]]]:
    """Yield (title, parts) of each chart; titles that read the same are told apart."""
    twins = Counter(title for _, title, _ in charts)
    names, settings = [], []
    for (_, title, _), parts in charts.items():
        source = parts[0].measure.get("title", "") if parts[0].chart["kind"] != "row" else ""
        names.append(": ".join(filter(None, [source, title])) if twins[title] > 1 else title or source)
        settings.append({name: _parse_value(value) for name, value in parts[0].chart.get("setting", ())})
    yield from zip(disambiguate(names, settings), charts.values(), strict=True)


def _parse_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
