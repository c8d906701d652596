"""Rows that measures share, from the worst point to a given noise: right groups, right order, nothing hidden."""

import re
from pathlib import Path

import pytest

from holdfast.core import registry
from holdfast.core.chart import chart_data
from holdfast.report.apart import Apart
from holdfast.report.charts.forest import Forest, Row
from holdfast.report.charts.sections import chart_sections, first_chart
from holdfast.report.html import write_report
from holdfast.report.panel import Panel
from holdfast.storage.filesystem import Folder
from holdfast.storage.record_file import RunFiles
from json_records import make_record
from report_fixture import SOUND, make_run, write_record
from test_report_html import Page

NEAREST = {"kind": "failures", "name": "nearest", "divergence": "l2"}
PROBED = {"kind": "failures", "name": "misclassified", "probe": {"kind": "probes", "name": "linear", "penalty": 1.0}}


def ball(radius: float = 0.05) -> dict:
    return {"kind": "threats", "name": "linf", "radius": radius}


def attack(name: str = "pgd", steps: int = 50, **more) -> dict:
    part = {"kind": "attacks", "name": name, "steps": steps}
    return {"kind": "measures", "name": "adversarial_robustness", "attack": part, "ball": ball(), **more}


def learned(structure: str, **more) -> dict:
    part = {"kind": "learners", "name": "worst_mixture", "structure": structure}
    return {"kind": "measures", "name": "worst_noise_robustness", "learner": part, "ball": ball(), **more}


def given(name: str = "uniform", within: dict | None = None, **more) -> dict:
    part = {"kind": "threats", "name": name, "ball": within or ball()}
    return {"kind": "measures", "name": "probabilistic_robustness", "noise": part, **more}


def chance_charts(record: dict) -> list[Panel]:
    apart = Apart()
    sections = chart_sections(make_record(**record), RunFiles(Folder("."), {}), apart)
    assert apart.problems == []
    return [panel for section in sections for panel in section.panels]


def row_of(part: dict) -> list[dict]:
    """Return the row that the measure itself asks for."""
    charts = registry.build(part).charts({}, {})
    return [chart_data(chart) for chart in charts if type(chart).__name__ == "Row"]


def entry(part: dict, value: float | None, half: float | None = 0.05, **more) -> dict:
    part = {"failure": NEAREST, "among": "right", "first": None, **part}
    ends = {
        end: None if half is None or value is None else value + sign * half for end, sign in (("low", -1), ("high", 1))
    }
    return {
        "part": part, "title": part["name"], "unit": "share", "better": "higher", "error": None,
        "headline": "what holds", "charts": row_of(part),
        "scores": {"what holds": {"value": value, **ends, "n": 100, "interval": "", "note": "", **SOUND}},
        **more,
    }  # fmt: skip


def record_of(*encoders: list[dict]) -> dict:
    measures = [{str(key): m for key, m in enumerate(each)} for each in encoders]
    return {"encoders": [{"name": f"encoder-{i}", "measures": each} for i, each in enumerate(measures)]}


def names(svg: str) -> list[str]:
    """Return the names of the rows: texts at the left that are not on the horizontal axis."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return [text for text in texts if "%" not in text and "hold" not in text]


def test_rows_stand_in_the_order_that_theory_demands():
    parts = [given(), learned("independent"), learned("input"), attack(), learned("label"), learned("joint")]
    (chart,) = chance_charts(record_of([entry(part, 0.5) for part in parts]))
    assert chart.title == "nearest l2, ℓ∞ ≤ 0.05"
    learners = [f"worst noise ({structure})" for structure in ("joint", "input", "label", "independent")]
    assert names(chart.svg) == ["attack (pgd)", *learners, "uniform"]


def test_a_report_that_begins_with_rows_is_not_titled_by_the_first_of_them():
    record = record_of([entry(attack(), 0.4), entry(given(), 0.9)])
    first = first_chart(make_record(**record), RunFiles(Folder("."), {}))
    assert first is not None
    assert [panel.title for panel in first.panels] == ["From the worst point to a given noise"] == [first.heading]


def test_alt_text_tells_the_numbers():
    parts = [attack(), given("truncated_gaussian")]
    rows = [entry(parts[0], 0.42), entry(parts[1], 0.9, None)]
    (chart,) = chance_charts(record_of(rows, [entry(part, 0.7) for part in parts]))
    assert "encoder-0: attack (pgd) 42 % [37, 47], truncated gaussian 90 %; encoder-1: attack (pgd) 70 %" in chart.alt
    assert chart.notes == []


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        (given(within=ball(0.1)), "nearest l2, ℓ∞ ≤ 0.1"),
        (given(failure=PROBED), "misclassified linear, ℓ∞ ≤ 0.05"),
        (given(among="all"), "nearest l2, ℓ∞ ≤ 0.05, among all"),
        (given(first=50), "nearest l2, ℓ∞ ≤ 0.05, first 50"),
    ],
)
def test_only_the_same_failure_in_the_same_ball_on_the_same_images_is_compared(changed, title):
    assert chance_charts(record_of([entry(attack(), 0.4), entry(changed, 0.9)])) == []
    parts = [attack(), given(), changed, {**changed, "noise": {**changed["noise"], "name": "laplace"}}]
    charts = chance_charts(record_of([entry(part, 0.5) for part in parts]))
    assert charts[1].title == title
    assert "None" not in charts[0].title
    assert [names(chart.svg) for chart in charts] == [["attack (pgd)", "uniform"], ["uniform", "laplace"]]


def test_noises_without_a_ball_are_left_out():
    turned = given()
    turned["noise"] = {"kind": "threats", "name": "rotation", "degrees": 15.0}
    assert chance_charts(record_of([entry(attack(), 0.4), entry(turned, 0.9)])) == []


def test_rows_that_would_read_the_same_tell_how_they_differ():
    parts = [attack(steps=50), attack(steps=100), attack("square")]
    (chart,) = chance_charts(record_of([entry(part, 0.5) for part in parts]))
    assert names(chart.svg) == ["attack (pgd), steps 50", "attack (pgd), steps 100", "attack (square)"]
    parts[1]["attack"]["restarts"] = 3  # tells nothing that the steps do not
    assert names(chance_charts(record_of([entry(part, 0.5) for part in parts]))[0].svg) == names(chart.svg)


def height(name: str) -> float:
    found = re.search(
        r'viewBox="0 0 [\d.]+ ([\d.]+)"', Forest("it", [Row(name, 0, [(0, 0.5, 0.4, 0.6, False)])] * 2, across="").svg()
    )
    assert found is not None
    return float(found[1])


def test_long_names_make_higher_rows():
    assert (
        height("a long name " * 9) - height("a") >= 2 * 2 * 9
    )  # points: two more lines, at least, in each of two rows


def test_what_has_no_value_is_left_out_and_named():
    parts = [attack(), learned("input"), given(), given("laplace")]
    first = [entry(part, 0.5) for part in parts]
    first[1].update(error="the loss is not finite.", scores={}, charts=[])
    first[3]["scores"]["what holds"].update(value=None, note="every image fails without a disturbance")
    (chart,) = chance_charts(record_of(first, [entry(part, 0.5) for part in parts[:3]]))
    assert names(chart.svg) == ["attack (pgd)", "worst noise (input)", "uniform"]
    assert chart.notes == [
        "encoder-0: worst noise (input) is left out (the loss is not finite).",
        "encoder-0: laplace is left out (every image fails without a disturbance).",
    ]
    for row in first[1:]:
        row.update(error="no", scores={}, charts=[])
    assert chance_charts(record_of(first)) == []  # one row is no order


def points(svg: str) -> dict[str, list[tuple[float, float]]]:
    """Return where the marks of each colour stand."""
    found: dict[str, list[tuple[float, float]]] = {}
    for x, y, colour in re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill: var\((--s\d)\)', svg):
        found.setdefault(colour, []).append((float(x), float(y)))
    return found


def test_marks_stand_where_they_should():
    ends = [(0, 0.0, 0.0, 0.1, False), (2, 0.5, 0.4, 0.6, False), (2, 1.0, 0.9, 1.0, False)]
    svg = Forest("it", [Row("a < b", 0, ends[:2]), Row("c", 1, ends[2:])], across="it holds").svg()
    marks = points(svg)
    (first,), (second, third) = marks["--s0"], marks["--s2"]
    assert second[0] == pytest.approx((first[0] + third[0]) / 2, abs=0.01)  # 0, 50 and 100 %
    assert first[1] < second[1] < third[1]  # dodged within a row; the second row lies below
    assert "a &lt; b" in svg
    lines = re.findall(r'd="M ([\d.]+) [\d.]+ *\n?L ([\d.]+) [\d.]+ *\n?" [^>]*stroke: var\(--s2\)', svg)
    width = third[0] - first[0]
    assert [(float(high) - float(low)) / width for low, high in lines] == pytest.approx([0.2, 0.1], abs=1e-3)


def shown(folder: Path, record: dict) -> str:
    write_record(folder, record)
    return write_report(folder).read_text(encoding="utf-8")


def test_the_report_shows_the_section_where_there_is_something_to_compare(tmp_path):
    record = make_run(tmp_path, 2)
    for encoder in record["encoders"]:
        encoder |= {"measures": {"overlap_risk": encoder["measures"]["overlap_risk"]}, "observations": []}
    record["comparison"] = {"overlap_risk": record["comparison"]["overlap_risk"]}
    before = shown(tmp_path, record)
    assert "From the worst point" not in before
    hostile = "<script>alert(1)</script>"
    for encoder in record["encoders"]:
        found = {"attack": entry(attack(), 0.5), "noise": entry(given(), 0.9)}
        found["noise"]["charts"][0]["name"] = hostile
        for key, measure in found.items():
            encoder["measures"][key] = {**encoder["measures"]["overlap_risk"], **measure}
    for key in ("attack", "noise"):
        record["comparison"][key] = {"best": None, "pairs": []}
    text = shown(tmp_path, record)
    page = Page(text)  # tags nest
    assert len(page.all("script")) == 1
    assert hostile not in text
    section = text[text.index(">From the worst point to a given noise</h3>") :]
    section = section[: section.index("<h3")]
    assert "<figcaption>nearest l2, ℓ∞ ≤ 0.05</figcaption>" in section
    assert "attack (pgd) 50 % [45, 55]" in section
    chart = section[section.index('<div role="img"') :]
    assert not re.search(r"(?:fill|stroke): *#", chart)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_what_failed_a_check_is_hollow_or_left_out(tmp_path):
    parts = [attack(), given(), given("laplace")]
    record = record_of([entry(part, 0.5) for part in parts])
    measures = list(record["encoders"][0]["measures"].values())
    measures[0]["scores"]["what holds"] |= {"standing": "at most", "because": ["masking"]}
    measures[2]["scores"]["what holds"] |= {"standing": "void", "because": ["frozen"]}
    (chart,) = chance_charts(record)
    assert chart.notes == [
        "encoder-0: attack (pgd), hollow: a check failed (misleading gradients), so the truth is at most what is "
        "drawn.",
        "encoder-0: laplace is left out: void, a check failed (answers change from pass to pass).",
    ]
    assert names(chart.svg) == ["attack (pgd)", "uniform"]
    assert "fill: var(--card)" in chart.svg
    assert "attack (pgd) at most 50 %," in chart.alt
