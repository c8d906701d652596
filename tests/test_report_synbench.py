"""SynBench in the report: curves and areas that are right, the best ε where it belongs, readable when pieces miss."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from scipy.stats import norm

from holdfast.core.chart import Curves, chart_data
from holdfast.numerics.gaussian_classes.synbench import area, thresholds
from holdfast.parts.measures.synbench.synbench import Synbench
from holdfast.parts.observations.mixtures import Mixtures
from holdfast.report.apart import Apart
from holdfast.report.charts.figure import css, shade
from holdfast.report.charts.sections import chart_sections
from holdfast.report.html import write_report
from holdfast.report.panel import Panel
from holdfast.storage.entry import as_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.record_file import RunFiles
from json_records import make_record, typed
from report_fixture import SOUND, make_run, write_record
from test_report_html import Page, contrast
from test_report_terminal import line, printed

STARTS = (0.6, 0.7, 0.8, 0.9)
EPSILONS = tuple(i / 10 for i in range(9))
S = np.arange(1, 50) / 10
SUMS = (85.8304, 59.6211, 36.4201, 15.9132)
"""Of the reference, over the points from each start: given with the method, not by this code."""


def reference(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    accuracy = norm.cdf(s)
    return accuracy, 1 + norm.pdf(s) / (accuracy * s)


def make_synbench(folder: Path, keep: float, table: str = "tables/s.parquet", best: float = 0.2, **more) -> dict:
    """Write the table of an encoder that leaves a share of every s, most of it at ε `best`, and return its entry."""
    rng, rows = np.random.default_rng(7), np.repeat(S, 2)
    columns: dict[str, np.ndarray] = {"s": rows, "direction": np.ones(98), "half": np.tile([1, 2], 49)}
    columns["share"] = rng.random(98)
    scores, counts = {}, [int((1 - start) / 0.4 * 99 + 1e-9) + 1 for start in STARTS]
    for epsilon in EPSILONS:
        left = keep * (1 - 1.2 * (epsilon - best) ** 2)
        accuracy, bound = reference(rows * left)
        accuracy = (accuracy + 0.004 * rng.standard_normal(98)).clip(0, 1)
        known = dict(zip(("reference accuracy", "reference bound"), reference(rows), strict=True))
        for name, column in {"accuracy": accuracy, "bound": left * bound, **known}.items():
            columns[f"{name}@{epsilon:g}"] = column
        for start, count in zip(STARTS, counts, strict=True):
            points = 1 - 0.4 / 99 * np.arange(count)
            value = float(
                ((accuracy[:, None] > points).sum(1) * left * bound).sum()
                / ((known["reference accuracy"][:, None] > points).sum(1) * known["reference bound"]).sum()
            )
            scores[f"a_t {start:g}, ε {epsilon:g}"] = entry(value, 0.04)
    scores["best ε"] = entry(best, 0.1, unit="ε")
    scores["a_t 0.7, ε 0"] = scores.pop("a_t 0.7, ε 0")  # the headline comes last
    (folder / table).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [f"row {i}" for i in range(98)], **columns}), folder / table)
    measure = Synbench(Mixtures(EPSILONS, separations=tuple(S.tolist()), **more), STARTS)
    tensors = {name: torch.from_numpy(np.asarray(column, dtype=float)) for name, column in columns.items()}
    charts = as_json([chart_data(chart, columns, scores) for chart in measure.charts(tensors, {})])
    return {
        "part": {"kind": "measures", "name": "synbench"}, "charts": charts,
        "title": "Synbench", "question": "How much survives?", "how_to_read": "Higher is better.",
        "better": "higher", "unit": "ratio", "reference": "SynBench, Eq. 3", "scores": scores, "error": None,
        "passes_alone": {"forward": 401408, "backward": 0},
        "headline": "a_t 0.7, ε 0", "column": "share", "table": table, "seconds": 0.1,
    }  # fmt: skip


def entry(value: float | None, half: float, unit: str = "") -> dict:
    ends = {"low": None, "high": None} if value is None else {"low": max(0, value - half), "high": value + half}
    return {"value": value, **ends, "n": 49, "interval": "t", "confidence": 0.95, "note": "", "unit": unit, **SOUND}


def panels(record: Record, folder: Path) -> dict[str, Panel]:
    """Return what is drawn of SynBench, by title."""
    apart = Apart()
    sections = chart_sections(record, RunFiles(Folder(folder), {}), apart)
    assert apart.problems == []
    return {panel.title: panel for section in sections for panel in section.panels if section.heading == "SynBench"}


def alone(m: dict) -> Record:
    return make_record([{"name": "a", "measures": {"s": m}}])


def lines(m: dict, style: str) -> dict[str, np.ndarray]:
    """Return the expected bounds by name: the whole curve of each line."""
    (curves,) = [chart for chart in m["charts"] if chart["kind"] == "curves"]
    return {
        f"{i} {line['name']}": np.array(line["y"]) for i, line in enumerate(curves["lines"]) if line["style"] == style
    }


def add(record: dict, folder: Path, index: int, key: str, **options) -> dict:
    m = make_synbench(folder, table=f"tables/{index}-{key}.parquet", **options)
    record["encoders"][index]["measures"][key] = m
    return m


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def record(folder: Path) -> dict:
    record = make_run(folder)
    for index, keep in enumerate((0.55, 0.8, 0.93)):
        add(record, folder, index, "synbench", keep=keep, best=0.1 * (index + 1))
    return record


POINTS = thresholds(0.5).numpy()


def test_curves_have_the_areas_that_the_method_gives_for_its_reference(folder):
    m = make_synbench(folder, 0.8)
    assert (POINTS[-1], len(POINTS)) == (1.0, 124)
    assert POINTS[0] > 0.5 > POINTS[0] - 0.4 / 99
    (curve,) = lines(m, "dashed").values()
    assert [curve[start - 1e-9 <= POINTS].sum() for start in STARTS] == pytest.approx(SUMS, abs=1e-4)


def test_scores_are_ratios_of_areas_under_the_curves_that_are_drawn(folder):
    m = make_synbench(folder, 0.8)
    own, (known,) = lines(m, "solid").values(), lines(m, "dashed").values()
    assert len(own) == 9
    for at in STARTS:
        right = at - 1e-9 <= POINTS
        for curve, epsilon in zip(own, EPSILONS, strict=True):
            value = m["scores"][f"a_t {at:g}, ε {epsilon:g}"]["value"]
            assert curve[right].sum() / known[right].sum() == pytest.approx(value, abs=1e-6)


def test_curves_are_those_of_the_score(folder):
    m = make_synbench(folder, 0.8)
    table = pq.read_table(folder / m["table"])
    accuracy, bound = (torch.tensor(table[name].to_numpy()) for name in ("accuracy@0.4", "bound@0.4"))
    curve = lines(m, "solid")["4 0.4"]
    for start in (0.5, *STARTS):
        assert curve[start - 1e-9 <= POINTS].sum() == pytest.approx(
            float(area(accuracy, bound, start).mean()), abs=1e-5
        )


def test_the_best_budget_of_each_row_is_marked_once_and_the_smallest_of_equals(folder):
    m = make_synbench(folder, 0.8, best=0.3)
    for epsilon in EPSILONS:
        m["scores"][f"a_t 0.9, ε {epsilon:g}"].update(value=0.0, low=0.0, high=0.1)
    m["scores"]["a_t 0.8, ε 0.5"]["value"] = m["scores"]["a_t 0.8, ε 0.3"]["value"]
    m["scores"]["a_t 0.6, ε 0.2"]["value"] = 0.99
    m["scores"]["a_t 0.6, ε 0.3"].update(value=None, low=None, high=None, note="nothing <left>")
    m["scores"]["a_t 0.7, ε 0.5"].update(value=None, low=None, high=None)  # where the headline is: a gap in the chart
    drawn = panels(alone(m), folder)
    ((_, _, rows),) = drawn["Synbench"].table.blocks
    best = {start: [i for i, cell in enumerate(cells) if cell.best] for start, cells in rows}
    assert best == {"0.6": [2], "0.7": [3], "0.8": [3], "0.9": []}
    missing = dict(rows)["0.6"][3]
    assert (missing.value, missing.interval, missing.note) == ("-", "", "nothing <left>")
    assert drawn["Score against ε, a_t 0.7"].legend == [(0, "a best ε 0.3 [0.2, 0.4]")]


def test_the_section_shows_every_encoder_and_its_scores(folder, record, undrawn):
    write_record(folder, record)
    page = write_report(folder).read_text(encoding="utf-8")
    found = Page(page)
    assert "Two classes of Gaussian images" in found.text
    assert "49 separations s from 0.1 to 4.9, in 1 direction, 2 × 2,048 images each" in found.text
    charts = [attrs["aria-label"] for _, attrs in found.elements if attrs.get("role") == "img"]
    assert sum("expected bound against threshold accuracy" in alt for alt in charts) == 3
    assert sum(alt.startswith("Score against ε, a_t 0.7 against ε") for alt in charts) == 1
    for encoder in record["encoders"]:
        value = encoder["measures"]["synbench"]["scores"]["a_t 0.9, ε 0.4"]["value"]
        assert f">{value:.2f}<small>[{value - 0.04:.2f}, {value + 0.04:.2f}]<" in page
    assert "share per image" not in "".join(charts)  # rows are no images: no histogram of them


def test_a_failed_encoder_leaves_the_others(folder, record, undrawn):
    failed = {"scores": {}, "charts": [], "error": "out of memory", "table": None, "headline": None}
    record["encoders"][0]["measures"]["synbench"].update(failed)
    record["encoders"][1] = {"name": "b", "slug": "b", "error": "no such model", "measures": {}, "checks": {}}
    write_record(folder, record)
    drawn = panels(typed(record), folder)
    assert drawn["zoo:digits-simclr-hardened"].series == 2
    assert len(drawn) == 3
    write_report(folder)
    record["encoders"][2]["measures"]["synbench"].update(failed)
    write_record(folder, record)
    assert "Two classes of Gaussian images" not in write_report(folder).read_text(encoding="utf-8")


def test_twins_have_charts_of_their_own_and_names_are_escaped(folder, undrawn):
    hostile, record = "<script>alert(1)</script>", make_run(folder, 1)
    more = {"covariance": "images", "clamp": True, "norm": float("inf"), "shrinkage": "ledoit_wolf", "scale": 0.2}
    add(record, folder, 0, "synbench", keep=0.8)
    add(record, folder, 0, "twin", keep=0.5, **more)["title"] = f"Synbench {hostile}"
    record["encoders"][0]["name"] = hostile
    write_record(folder, record)
    page = write_report(folder).read_text(encoding="utf-8")
    found = Page(page)
    assert len(found.all("script")) == 1
    assert page.count("<script") == 1
    facts = "covariance of your own images, ε in ℓ∞, a unit of noise is 0.2 pixels, clamped to [0, 1], covariance of"
    assert facts in found.text
    against = "Score against ε, a_t 0.7"
    assert {f"Synbench: {against}", f"Synbench {hostile}: {against}"} <= set(panels(typed(record), folder))
    ids = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_images_that_have_a_curve_for_each_budget_have_a_dashed_line_for_each(folder):
    m = make_synbench(folder, 0.8)
    assert panels(alone(m), folder)["a"].svg.count("stroke-dasharray") == 2  # the reference; where the area begins
    table = pq.read_table(folder / m["table"])
    tensors = {name: torch.tensor(table[name].to_numpy()) for name in table.column_names if name != "id"}
    tensors["reference bound@0.8"] = 0.9 * tensors["reference bound@0.8"]
    measure = Synbench(Mixtures(EPSILONS, separations=tuple(S.tolist())), STARTS)
    (chart,) = [chart for chart in measure.charts(tensors, {}) if isinstance(chart, Curves)]
    assert sum(line.style == "dashed" for line in chart.lines) == 9
    m["charts"] = as_json([chart_data(chart)])
    panel = panels(alone(m), folder)["a"]
    assert panel.svg.count("stroke-dasharray") == 10
    assert [name for _, name in panel.legend][-2:] == ["0.8", "the images, for each ε"]


@pytest.mark.slow
def test_colours_follow_the_theme_and_can_be_seen_in_both(folder, record):
    write_record(folder, record)
    page = write_report(folder).read_text(encoding="utf-8")
    charts = re.findall(r'aria-label="[^"]*expected bound[^"]*"><svg.*?</svg>', page, re.DOTALL)
    assert len(charts) == 3
    for svg in charts:
        assert not re.search(r"(?:fill|stroke): *#", svg)
        assert all(f"stroke: {css(shade(i / 8))}" in svg for i in range(9))
    colours = {m[0]: m[1:] for m in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", page)}
    assert all(contrast(colours[end][theme], colours["card"][theme]) >= 3 for end in ("e0", "e1") for theme in (0, 1))


@pytest.mark.parametrize("width", [140, 70], ids=["side by side", "stacked"])
def test_the_terminal_says_the_headline_and_the_best_budget(record, width):
    text = printed(record, width=width)
    value = record["encoders"][2]["measures"]["synbench"]["scores"]["a_t 0.7, ε 0"]["value"]
    assert f"{value:.2f} [{value - 0.04:.2f}, {value + 0.04:.2f}]" in text
    assert line(text, "best ε", "[0.2, 0.4]").rstrip().endswith(" 0.3 [0.2, 0.4]")
    assert text.count("best ε") == (1 if width == 140 else 3)
    record["encoders"][0]["measures"]["synbench"].update(scores={}, error="out of memory", headline=None)
    record["encoders"][1]["measures"]["synbench"]["scores"]["best ε"] = entry(None, 0, "ε")
    text = printed(record, width=width)
    assert "undefined" in line(text, "best ε", "undefined")
    assert text.count("best ε") == (1 if width == 140 else 2)
