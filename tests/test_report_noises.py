"""The section on learned noises: complete, escaped, in the colours of the page, readable when pieces are missing."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.report import noises as noise_report
from holdfast.report.charts.dots import Dots
from holdfast.report.charts.heat import ABOVE, BELOW, Heat
from holdfast.report.html import write_report
from report_fixture import make_run, write_record
from test_report_html import Page

STRUCTURES = ("independent", "label", "input")


def make_noises(folder: Path, record: dict, groups: int = 3) -> list[dict]:
    """Give the first encoder of a run three noises, of invented numbers, and write the record again."""
    rng, encoder = np.random.default_rng(0), record["encoders"][0]
    encoder["noises"] = [_noise(folder, i, structure, groups, rng) for i, structure in enumerate(STRUCTURES)]
    write_record(folder, record)
    return encoder["noises"]


def _noise(folder: Path, i: int, structure: str, groups: int, rng: np.random.Generator) -> dict:
    name, rows = f"noises/digits/{i}", 2 * groups + 2
    code = np.arange(rows) % groups
    maps = {f"{kind}_{axis}": rng.standard_normal(rows) for kind in ("pca", "tsne") for axis in "xy"}
    pixels = {f"pixel_{k:02d}": rng.uniform(-0.1, 0.1, rows) for k in range(16)}
    _write(folder, f"{name}/draws.parquet", {"group": code, "draw": np.zeros(rows, int), **maps, **pixels})
    _write(folder, f"{name}/means.parquet", {f"axis_{k:02d}": rng.standard_normal(2) for k in range(4)})
    covariance = np.eye(6) - 0.1
    _write(folder, f"{name}/covariance.parquet", {f"latent_{k:02d}": covariance[:, k] for k in range(6)})
    kinds = ("clean", "disturbed", "difference")
    files = {kind: f"{name}/{kind}.png" for kind in kinds}
    for file in files.values():
        PIL.Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(folder / file)
    return {
        "title": f"worst noise learned, {structure}", "structure": structure, "failure": "another image is nearer, l2",
        "ball": {"kind": "threats", "name": "linf", "radius": 0.1}, "measures": ["overlap_risk"],
        "file": f"{name}.safetensors",
        "training": {"chance": [0.9, 0.8, 0.7 - 0.1 * i], "entropy": [1.0, 0.6, 0.2]},
        "images": rows, "grouped": "cluster", "groups": [f"cluster {g}" for g in range(groups)],
        "table": f"{name}/draws.parquet", "cells": 16, "origin": [0.1, -0.2], "explained": [0.612, 0.2],
        "weights": {"mean": [0.9, 0.1], "groups": [[0.8, 0.2]] * groups if structure == "label" else []},
        "means": {"table": f"{name}/means.parquet", "size": 4},
        "covariance": {"table": f"{name}/covariance.parquet", "size": 6, "block": 2}, "amplified": 2.5,
        "pictures": [{
            "id": "digit-7", "group": 0, "clean": files["clean"],
            "draws": [{kind: files[kind] for kind in kinds[1:]}],
        }],
    }  # fmt: skip


def _write(folder: Path, name: str, columns: dict[str, np.ndarray]) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    ids = [str(row) for row in range(len(next(iter(columns.values()))))]
    pq.write_table(pa.table({"id": ids, **columns}), folder / name)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def record(folder):
    return make_run(folder, 1)


@pytest.fixture
def noises(folder, record):
    return make_noises(folder, record)


def section(folder: Path) -> str:
    text = write_report(folder).read_text(encoding="utf-8")
    Page(text)  # tags nest
    start = text.index('<details class="fold" id="noises"')
    return text[start : text.index('<details class="fold"', start + 1)]


def rewritten(folder: Path, record: dict) -> str:
    write_record(folder, record)
    return section(folder)


def legends(html: str, chart: str) -> list[str]:
    lists = re.findall(rf'aria-label="{chart}[^"]*: colours">(.*?)</ul>', html, re.DOTALL)
    return [", ".join(re.findall(r'class="name">(.*?)</span>', text)) for text in lists]


def test_all_that_belongs_to_a_noise_is_there(folder, noises, undrawn):
    html = section(folder)
    for entry in noises:
        assert f"<code>{entry['file']}</code>" in html
        assert f"<summary>{entry['structure'].capitalize()}: another image is nearer, l2, linf 0.1</summary>" in html
    charts = re.findall(r"<figcaption>([^<]*)</figcaption>\n<div role", html)
    each = ["Perturbations, principal components", "Perturbations, t-SNE", "Perturbations by cluster",
            "Mixture weights", "Means of the components", "Covariance of the heaviest component"]  # fmt: skip
    setting = "another image is nearer, l2, linf 0.1"
    assert charts == [f"Draws that hold: {setting}", f"Entropy ratio: {setting}", *each * 3]
    assert "Overlap risk" in html
    assert "first component, 61 % of the variance" in html
    assert "In the last epoch: independent 70 %, label 60 %, input 50 %." in html
    assert html.count("differences are amplified 2.5 times") == 3
    assert html.count("Each cell is the mean over 2 × 2 latent numbers") == 3
    assert html.count("<img") == 9
    assert 'href="#noises"' in (folder / "report.html").read_text(encoding="utf-8")


def test_noises_with_another_failure_or_ball_are_not_compared(folder, record, noises, undrawn):
    noises[2]["ball"]["radius"] = 0.2
    html = rewritten(folder, record)
    assert legends(html, "Draws that hold") == ["independent, label", "input"]


def test_colours_follow_the_theme_and_ids_are_unique(folder, noises):
    html = section(folder)
    charts = re.findall(r'<div role="img".*?</svg>', html, re.DOTALL)
    assert len(charts) == 2 + 3 * 6
    assert not re.search(r"(?:fill|stroke): *#", "".join(charts))
    assert all("var(--" in chart for chart in charts)
    assert html.count("var(--bad)") == 3  # the origin of every map of principal components
    text = (folder / "report.html").read_text(encoding="utf-8")
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
    assert all(uri.startswith("data:image/png") for uri in re.findall(r'(?:src|xlink:href)="([^#"][^"]*)"', html))
    assert 'aria-label=""' not in html
    assert 'alt=""' not in html
    assert not re.search(r"\son\w+=", html)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'])
def test_names_are_escaped(folder, record, noises, hostile):
    noises[0].update(failure=hostile, file=hostile, groups=[hostile, "b", "c"], grouped=hostile, measures=[hostile])
    noises[0]["pictures"][0]["id"] = noises[0]["structure"] = noises[0]["ball"]["name"] = hostile
    html = rewritten(folder, record)
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert hostile not in html
    assert page.text.count(hostile) >= 5
    assert len(page.all("script")) == 1
    assert not any(key.startswith("on") for _, attrs in page.elements for key in attrs)


def test_many_groups_share_a_colour(folder, record, undrawn):
    make_noises(folder, record, groups=15)
    html = section(folder)
    first = legends(html, "Perturbations, t-SNE")[0].split(", ")
    assert len(first) == 13
    assert first[-1] == "others"
    assert html.count("cluster 14") == 0


def test_missing_files_are_named(folder, noises, undrawn):
    (folder / noises[0]["table"]).unlink()
    (folder / noises[1]["means"]["table"]).write_text("nothing")
    (folder / noises[2]["covariance"]["table"]).unlink()
    (folder / noises[2]["pictures"][0]["clean"]).unlink()
    html = section(folder)
    assert html.count(f"expected a Parquet table at {noises[0]['table']}") == 3
    assert html.count(f"expected a Parquet table at {noises[1]['means']['table']}") == 1
    assert html.count(f"expected a Parquet table at {noises[2]['covariance']['table']}") == 1
    assert html.count("<img") == 8


def test_nothing_outside_the_folder_is_read(folder, record, noises, undrawn):
    noises[0]["table"] = "../../secret.parquet"
    assert rewritten(folder, record).count("expected a path inside the run folder") == 3


def test_what_is_not_defined_is_left_out(folder, record, noises, undrawn):
    noises[0]["training"]["entropy"] = [None, None, None]  # one component
    noises[0].update(explained=[0.0, 0.0], weights={"mean": [1.0], "groups": []})
    table = pq.read_table(folder / noises[0]["table"]).to_pydict()
    rows = len(table.pop("id"))
    changed = {name: np.full(rows, np.nan) for name in ("tsne_x", "tsne_y")}
    still = {name: np.zeros(rows) for name in table if name.startswith(("pca", "pixel"))}
    columns = {name: np.array(values) for name, values in table.items()} | changed | still
    _write(folder, noises[0]["table"], columns)
    _write(folder, noises[0]["means"]["table"], {f"axis_{k:02d}": np.zeros(1) for k in range(4)})
    html = rewritten(folder, record)
    assert legends(html, "Entropy ratio") == ["label, input"]
    assert html.count("Too few of the perturbations differ") == 1
    assert len(re.findall(r"<figcaption>Perturbations by cluster</figcaption>\n<div role", html)) == 3
    for entry in noises:
        entry["training"]["entropy"] = [None, None, None]
    assert "Entropy ratio:" not in rewritten(folder, record)


def test_a_noise_without_pictures_says_why(folder, record, noises, undrawn):
    kept = {key: noises[0][key] for key in ("title", "structure", "failure", "ball", "measures", "file", "training")}
    record["encoders"][0]["noises"][0] = {**kept, "problem": "labels <3> were not there"}
    record["encoders"][0]["noises"][1] = {**kept, "file": None, "problem": "no mixture"}
    html = rewritten(folder, record)
    assert "No pictures: labels &lt;3&gt; were not there" in html
    assert "No pictures: no mixture" in html
    assert html.count("<code>") == 2
    assert html.count("differences are amplified") == 1
    assert legends(html, "Draws that hold") == ["independent, independent, input"]


def test_null_values_leave_out_their_chart(folder, record, noises):
    noises[0]["weights"]["mean"] = [None, 0.1]
    noises[1]["weights"]["groups"][1] = [None, None]
    noises[2].update(origin=[None, None], explained=[None, None], amplified=None)
    _write(folder, noises[2]["covariance"]["table"], {f"latent_{k:02d}": np.full(6, np.nan) for k in range(6)})
    html = rewritten(folder, record)
    assert html.count("Not all mixture weights are finite numbers") == 2
    assert html.count("Not all means and weights are finite") == 1
    assert html.count("Not all covariances are finite") == 1
    assert html.count("var(--bad)") == 2
    assert "amplified an unknown number of times" in html


def test_weights_are_those_of_the_most_frequent_groups(folder, record, monkeypatch, undrawn):
    entry = make_noises(folder, record, groups=15)[1]
    table = pq.read_table(folder / entry["table"]).to_pydict()
    rows = len(table.pop("id"))
    columns = {name: np.array(values) for name, values in table.items()}
    columns["group"] = np.arange(rows) % 12 + 3  # none of the first three
    _write(folder, entry["table"], columns)
    entry["weights"]["groups"] = [[g / 15, 1 - g / 15] for g in range(15)]
    drawn = {}
    monkeypatch.setattr(
        noise_report.Bars, "svg", lambda bars: drawn.update({bars.key: (bars.names, bars.values)}) or "<svg/>"
    )
    rewritten(folder, record)
    ((names, values),) = (drawn[key] for key in drawn if key.startswith("noise0-1"))
    assert names == ["all", *(f"cluster {g}" for g in range(3, 15))]
    np.testing.assert_allclose(values[1:, 0], np.arange(3, 15) / 15)


def test_runs_without_noises_have_no_section(folder, record, undrawn):
    before = write_report(folder).read_text(encoding="utf-8")
    assert "Worst noise" not in before
    for encoder in record["encoders"]:
        encoder["noises"] = []
    write_record(folder, record)
    assert write_report(folder).read_text(encoding="utf-8") == before


def test_a_heat_map_shows_the_values_it_is_given():
    values = np.array([[0.5, -0.5], [0.0, 0.25]])
    svg = Heat("it", values, x="numbers").svg()
    data = re.search(r'xlink:href="data:image/png;base64,\s*([^"]+)"', svg)
    assert data is not None
    pixels = np.array(PIL.Image.open(io.BytesIO(base64.b64decode(data[1]))))
    assert tuple(pixels[0, 0]) == (*ABOVE, 255)
    assert tuple(pixels[0, 1]) == (*BELOW, 255)
    assert pixels[1, 0, 3] == 0
    assert 100 < pixels[1, 1, 3] < 150
    scale = re.search(r'<image[^>]*transform="([^"]*)"', svg)
    assert scale is not None
    assert "pixelated" in svg


def test_dots_stand_where_they_should():
    points = [(0, np.array([[0.0, 0.0], [1.0, 2.0]])), (None, np.array([[0.5, 1.0]]))]
    svg = Dots("it", points, x="a < b", y="y", origin=(0.0, 2.0)).svg()
    starts = [
        [tuple(map(float, m)) for m in re.findall(r"M([\d.]+) ([\d.]+)", d)] for d in re.findall(r'd="(.*?)"', svg)
    ]
    (low, high), (middle,), (cross,) = starts[1:]
    assert low[0] < middle[0] < high[0]
    assert low[1] > middle[1] > high[1]  # upwards is up
    assert cross == (low[0] - 6, high[1])
    assert re.findall(r"fill:var\((--\w+)\);opacity", svg) == ["--s0", "--muted"]
    assert "a &lt; b" in svg
