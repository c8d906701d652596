"""Cells made of other cells: what is lost against another one, means; and checkpoints along a training."""

import math
from pathlib import Path

import pytest
import torch

from holdfast.comparison.records import Run, open_run
from holdfast.core import HoldfastError, Score
from holdfast.numerics.geometry.fluctuation import semantic_fluctuation
from holdfast.runtime.errors import Missing, UnknownName
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import FluctuationEntry, SeriesEntry
from holdfast.workflows.reproduce.cells import fluctuation
from holdfast.workflows.reproduce.derived import mean
from holdfast.workflows.reproduce.recipe import read
from json_records import encoder_entry, measure_entry, reproduce, small_record

TABLE = """
paper = "A paper"
where = "Table 3"
title = "Numbers made of numbers"
units = "pixels"
inputs = { first = { about = "a", spec = "zoo:digits-supervised" }, second = { about = "b", spec = "zoo:digits_cnn" }, \
seen = { about = "a training", train = { like = "short" } } }
[trainings.short]
encoder = "zoo:digits_cnn"
data = "digits?part=train"
images = 200
epochs = 3
batch_size = 50
method = "supervised"
views = { crop = [1, 1], flip = 0 }
snapshots = 1
[audits.main]
data = "digits"
train = "digits?part=train"
profile = "quick"
encoders = ["first", "second", "seen"]
images = 60
attacked = 60
measures = [{ name = "probe_accuracy", probe = { name = "knn", k = 5 } }]
[audits.other]
data = "digits?part=all"
profile = "quick"
encoders = ["first", "second"]
images = 60
attacked = 30
measures = [{ name = "probe_accuracy", probe = { name = "knn", k = 5 } }]
[[columns]]
name = "accuracy"
audit = "main"
measure = "probe_accuracy"
[[columns]]
name = "lost"
audit = "main"
measure = "probe_accuracy"
score = ["right", "top-1"]
drop = "accuracy"
[[columns]]
name = "lost elsewhere"
audit = "other"
measure = "probe_accuracy"
drop = "accuracy"
[[columns]]
name = "mean"
mean = ["lost", "lost elsewhere"]
[[columns]]
name = "of one audit"
mean = ["accuracy", "lost"]
[[columns]]
name = "TV"
audit = "main"
measure = "probe_accuracy"
fluctuation = "mean"
[[columns]]
name = "TV 3"
audit = "main"
measure = "probe_accuracy"
fluctuation = "class 3"
[[rows]]
name = "first"
encoder = "first"
from = "first"
[[rows]]
name = "second"
encoder = "second"
from = "first"
[[rows]]
name = "last"
encoder = "seen/epoch-0003"
from = "second"
cells = { "TV" = { encoder = "seen" }, "TV 3" = { encoder = "seen" } }
[[claims]]
text = "the first is right more often and loses more"
rises = ["second", "first"]
columns = ["accuracy", "mean"]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("derived")
    (folder / "t.toml").write_text(TABLE, encoding="utf-8")
    found = reproduce(read(str(folder / "t.toml")), folder / "run")
    assert found["failures"] == []
    return folder, found


def cell(found: dict, row: str, column: str) -> dict:
    place = [one["name"] for one in found["columns"]].index(column)
    return next(one for one in found["rows"] if one["name"] == row)["cells"][place]


def right(run: Run, encoder: str) -> torch.Tensor:
    entry = next(one for one in run.record.encoders if one.name == encoder)
    return run.table(entry.measures["probe_accuracy"].table)[1]["right"]


def test_what_is_lost_is_a_share_of_the_other_row(made: tuple[Path, dict]) -> None:
    folder, found = made
    run = open_run(str(folder / "run/audits/main"))
    first, second = float(right(run, "first").mean()), float(right(run, "second").mean())
    score = cell(found, "second", "lost")["score"]
    assert score["value"] == pytest.approx((first - second) / first)
    assert score["low"] < score["value"] < score["high"]
    assert "correlation 0.00" not in score["interval"]  # the same images
    assert "correlation 0.00" in cell(found, "second", "lost elsewhere")["score"]["interval"]
    assert cell(found, "first", "lost")["score"] is None
    assert "compared with it" in cell(found, "first", "lost")["why"]


def test_means_are_those_of_their_columns(made: tuple[Path, dict]) -> None:
    _, found = made
    for column, parts, kind in (
        ("mean", ("lost", "lost elsewhere"), "independent"),
        ("of one audit", ("accuracy", "lost"), "at any correlation"),
    ):
        scores = [cell(found, "second", part)["score"] for part in parts]
        whole = cell(found, "second", column)["score"]
        assert whole["value"] == pytest.approx(sum(score["value"] for score in scores) / 2)
        assert kind in whole["interval"]
    assert found["claims"][0]["outcome"] == "not shown"
    assert "compared with it" in found["claims"][0]["why"]


def test_halves_of_intervals_add_as_they_should() -> None:
    scores = [Score(0.5, 0.2, 0.9, 10, "x"), Score(0.1, -0.3, 0.4, 20, "x")]
    apart, together = mean(scores, apart=True), mean(scores, apart=False)
    assert apart.value == together.value == pytest.approx(0.3)
    assert (apart.low, apart.high) == pytest.approx((0.3 - 0.25, 0.3 + math.hypot(0.4, 0.3) / 2))
    assert (together.low, together.high) == pytest.approx((0.3 - 0.35, 0.3 + 0.35))
    assert apart.n == 10
    assert mean([scores[0], Score(0.1, None, None, 5, "x")], apart=True).low is None
    with pytest.raises(Missing, match="without"):
        mean([Score(None, None, None, 5, "x")], apart=True)


def test_snapshots_of_a_training_are_encoders_and_fluctuate(made: tuple[Path, dict]) -> None:
    folder, found = made
    run = open_run(str(folder / "run/audits/main"))
    names = [f"seen/epoch-{epoch:04d}" for epoch in (1, 2, 3)]
    assert cell(found, "last", "accuracy")["score"]["value"] == float(right(run, names[2]).mean())
    entry = next(one for one in run.record.encoders if one.name == names[0])
    labels = run.table(entry.measures["probe_accuracy"].table)[1]["label"]
    moved = semantic_fluctuation(torch.stack([right(run, name) for name in names]), labels)
    expected = [float(moved[labels == label].mean()) for label in range(10)]
    assert cell(found, "last", "TV")["score"]["value"] == pytest.approx(sum(expected) / 10)
    assert cell(found, "last", "TV 3")["score"]["value"] == pytest.approx(expected[3])
    assert "second" in cell(found, "second", "TV")["why"]


def test_a_class_the_mean_and_the_noise_are_told_apart(tmp_path: Path) -> None:
    known = FluctuationEntry(mean=Score(0.3, 0.2, 0.4, 60, "x"), noise=0.1, classes={"class 3": 0.7, "class 4": 0.5})
    moved = {"knn": known, "lost": FluctuationEntry(problem="it failed")}
    encoders = [encoder_entry("one", measures=dict.fromkeys(moved, measure_entry(headline=None, error="no")))]
    series = [SeriesEntry(name="seen", encoders=["one"], fluctuation=moved)]
    run = Run("run", Folder(str(tmp_path)), small_record(encoders, series=series))
    asked = {"encoder": "seen", "measure": "knn"}
    values = [fluctuation(run, asked | {"fluctuation": one}).value for one in ("mean", "noise", "class 3", "class 4")]
    assert values == [0.3, 0.1, 0.7, 0.5]
    absent = fluctuation(run, asked | {"fluctuation": "class 5"})
    assert (absent.value, absent.note) == (None, "undefined: no tested image is of class 5")
    for wrong in ({"fluctuation": "clas 3"}, {"encoder": "other"}, {"measure": "linear"}, {"measure": "lost"}):
        with pytest.raises(HoldfastError, match=r"unknown|it failed"):
            fluctuation(run, asked | {"fluctuation": "mean"} | wrong)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('drop = "accuracy"', 'drop = "precision"', "column"),
        ('mean = ["lost", "lost elsewhere"]', 'mean = ["lost", "found"]', "column"),
        ('from = "second"', 'from = "third"', "row"),
    ],
)
def test_names_that_the_table_does_not_have_are_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "t.toml").write_text(TABLE.replace(before, after), encoding="utf-8")
    with pytest.raises(UnknownName, match=message):
        read(str(tmp_path / "t.toml"))
