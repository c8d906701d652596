"""Cells of figures: how attention moves, expected bounds of SynBench, and what one distance of its classes costs."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from holdfast.workflows.reproduce.recipe import read
from json_records import reproduce

S = np.array([0.5, 1.0, 2.0, 3.0])
TABLE = f"""
paper = "A paper"
where = "Figure 1"
title = "Figures"
units = "none"
inputs = {{ a = {{ about = "a", spec = "zoo:digits-supervised" }} }}
rows = [{{ name = "a", encoder = "a" }}]
[audits.drawn]
data = "digits"
profile = "synbench"
encoders = ["a"]
images = 20
attacked = 20
[[audits.drawn.measures]]
name = "synbench"
[audits.drawn.measures.mixtures]
name = "mixtures"
samples = 128
separations = {S.tolist()}
epsilons = [0.0, 0.5]
convention = "authors"
[audits.moved]
data = "digits"
profile = "corruptions"
encoders = ["a"]
images = 40
attacked = 40
measures = [{{ name = "corruption_drift", threats = [{{ name = "global_shuffle", grid = 2 }}] }}]
[[columns]]
name = "alike"
audit = "moved"
attention = "G2x2"
[[columns]]
name = "flat"
audit = "moved"
attention = "G3x3"
[[columns]]
name = "images"
audit = "drawn"
measure = "synbench"
bound = 0.7
epsilon = "images"
[[columns]]
name = "bound"
audit = "drawn"
measure = "synbench"
bound = 0.7
epsilon = 0.5
[[columns]]
name = "other"
audit = "drawn"
measure = "synbench"
bound = 0.7
epsilon = 0.25
[[columns]]
name = "seconds"
audit = "drawn"
measure = "synbench"
observation = "mixtures"
cost = "seconds"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict]]:
    folder = tmp_path_factory.mktemp("figures")
    (folder / "t.toml").write_text(TABLE, encoding="utf-8")
    record = reproduce(read(str(folder / "t.toml")), folder / "run")
    names = [column["name"] for column in record["columns"]]
    return folder / "run" / "audits", dict(zip(names, record["rows"][0]["cells"], strict=True))


def entry(folder: Path, audit: str) -> dict:
    return json.loads((folder / audit / "record.json").read_text())["encoders"][0]


def test_attention_is_the_mean_of_the_images_of_the_report(made: tuple[Path, dict[str, dict]]) -> None:
    folder, cells = made
    (strip,) = [strip for strip in entry(folder, "moved")["attention"]["strips"] if strip["title"] == "G2x2"]
    values = strip["agreement"]["representation"]
    score = cells["alike"]["score"]
    assert score["value"] == pytest.approx(np.mean(values))
    assert -1 <= score["low"] < score["value"] < score["high"] <= 1
    assert "corruption" in cells["flat"]["why"]


def test_bounds_are_those_of_the_accurate_classifiers(made: tuple[Path, dict[str, dict]]) -> None:
    folder, cells = made
    table = pq.read_table(folder / "drawn" / entry(folder, "drawn")["measures"]["synbench"]["table"]).to_pydict()
    accuracy, bound = (np.array(table[f"{name}@0.5"]) for name in ("accuracy", "bound"))
    assert cells["bound"]["score"]["value"] == pytest.approx(np.mean(bound * (accuracy > 0.7)))
    ideal = (1 + stats.norm.pdf(S) / (S * stats.norm.cdf(S))) * (stats.norm.cdf(S) > 0.7)
    assert cells["images"]["score"]["value"] == pytest.approx(ideal.mean())
    assert cells["images"]["score"]["low"] is None
    assert "0.25" in cells["other"]["why"]


def test_synthetic_images_cost_by_the_distance(made: tuple[Path, dict[str, dict]]) -> None:
    folder, cells = made
    (observed,) = [o for o in entry(folder, "drawn")["observations"] if o["part"]["name"] == "mixtures"]
    assert cells["seconds"]["score"]["value"] == pytest.approx(observed["seconds"] / len(S))
    assert cells["seconds"]["score"]["n"] == len(S)
