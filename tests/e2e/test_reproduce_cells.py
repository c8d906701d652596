"""Cells that are no score of one measure: differences, correlations over encoders, quantiles over images, costs."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from holdfast.core import Score
from holdfast.runtime.errors import BadValue, UnknownName
from holdfast.workflows.reproduce.cells import _quantile, ratio
from holdfast.workflows.reproduce.recipe import read
from json_records import reproduce

TABLE = """
paper = "A paper"
where = "Table 2"
title = "Derived numbers"
units = "pixels"
inputs = { a = { about = "a", spec = "zoo:digits-supervised" }, b = { about = "b", spec = "zoo:digits-simclr" }, \
c = { about = "c", spec = "zoo:digits-simclr-adv" } }
[audits.main]
data = "digits"
profile = "quick"
encoders = ["a", "b", "c"]
images = 60
attacked = 40
set = ["*.ball.radius=0.2"]
measures = [{ name = "universal_quantile", attack = { name = "pgd", steps = 5 } }, { name = "breakaway_risk", \
attack = { name = "pgd", steps = 5 } }]
[[columns]]
name = "UQ"
audit = "main"
measure = "universal_quantile"
[[columns]]
name = "less"
audit = "main"
measure = "breakaway_risk"
less = "UQ"
[[columns]]
name = "over"
audit = "main"
measure = "breakaway_risk"
scale = 100
over = "UQ"
[[columns]]
name = "median"
audit = "main"
measure = "universal_quantile"
values = "quantile@5"
quantile = ".5"
[[columns]]
name = "passes"
audit = "main"
measure = "universal_quantile"
observation = "attacked"
cost = "backward"
[[rows]]
name = "a"
encoder = "a"
[[rows]]
name = "c"
encoder = "c"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, dict]:
    folder = tmp_path_factory.mktemp("cells")
    (folder / "t.toml").write_text(TABLE, encoding="utf-8")
    found = reproduce(read(str(folder / "t.toml")), folder / "run")
    assert found["failures"] == []
    return folder, found, json.loads((folder / "run/audits/main/record.json").read_text())


def cells(found: dict, row: int) -> dict[str, dict]:
    return {c["name"]: cell for c, cell in zip(found["columns"], found["rows"][row]["cells"], strict=True)}


def headline(entry: dict, measure: str) -> float:
    one = entry["measures"][measure]
    return one["scores"][one["headline"]]["value"]


def test_a_cell_may_be_less_than_another(made: tuple[Path, dict, dict]) -> None:
    entry, cell = made[2]["encoders"][0], cells(made[1], 0)["less"]["score"]
    assert cell["value"] == pytest.approx(headline(entry, "breakaway_risk") - headline(entry, "universal_quantile"))
    assert cell["low"] < cell["value"] < cell["high"]


def test_too_few_images_give_a_quantile_no_interval() -> None:
    few = _quantile(torch.arange(20.0, dtype=torch.float64), 0.05)
    assert (few.low, few.high) == (None, None)
    assert few.note == "20 images are too few for an interval: it takes 72"
    for share in (0.05, 0.3, 0.5, 0.95):
        needed = int(_quantile(torch.arange(3.0), share).note.split()[-1])
        short, enough = (_quantile(torch.arange(float(n), dtype=torch.float64), share) for n in (needed - 1, needed))
        assert short.low is None
        assert None not in (enough.low, enough.high)
    many = _quantile(torch.arange(1000.0, dtype=torch.float64), 0.05)
    assert many.low is not None
    assert many.high is not None
    assert 30 < many.low < 50 < many.high < 70


def test_a_cell_may_be_divided_by_another(made: tuple[Path, dict, dict]) -> None:
    entry, cell = made[2]["encoders"][0], cells(made[1], 0)["over"]
    ratio = headline(entry, "breakaway_risk") / headline(entry, "universal_quantile")
    assert cell["score"]["value"] * cell["scale"] == pytest.approx(ratio)
    assert cell["score"]["low"] < cell["score"]["value"] < cell["score"]["high"]


def test_a_ratio_is_as_sure_as_its_numbers() -> None:
    def share(value: float, *ends: float | None) -> Score:
        low, high = ends or (value - 0.1, value + 0.1)
        return Score(value, low, high, 100, "")

    sure = ratio(share(0.4), share(0.2))
    assert sure.value == pytest.approx(2)
    assert (sure.low, sure.high) != (None, None)
    assert ratio(share(0.4), share(0.2, 0.0, 0.5)).value is None
    assert ratio(share(0.4), share(0.2, None, None)).low is None
    assert ratio(share(-0.4), share(0.2)).value == pytest.approx(-2)


def test_a_quantile_is_of_the_table(made: tuple[Path, dict, dict]) -> None:
    measure = made[2]["encoders"][0]["measures"]["universal_quantile"]
    values = pq.read_table(made[0] / "run/audits/main" / measure["table"])["quantile@5"].to_numpy()
    values = values[~np.isnan(values)]  # those of images that were not attacked
    cell = cells(made[1], 0)["median"]["score"]
    assert cell["value"] == pytest.approx(np.median(values))
    assert cell["low"] < cell["value"] < cell["high"]
    assert {cell["low"], cell["high"]} <= set(values)


def test_a_cost_is_for_each_image(made: tuple[Path, dict, dict]) -> None:
    cell = cells(made[1], 1)["passes"]["score"]
    assert cell["value"] == 5
    assert cell["low"] is None


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('less = "UQ"', 'less = "UR"', "UR"),
        ('quantile = ".5"', 'quantile = "5"', "between 0 and 1"),
        ('values = "quantile@5"', 'values = "quantile@6"', "quantile@6"),
        ('cost = "backward"', 'cost = "euros"', "euros"),
        ('observation = "attacked"', 'observation = "certified"', "certified"),
    ],
)
def test_what_is_not_there_is_told(made: tuple[Path, dict, dict], before: str, after: str, message: str) -> None:
    path = made[0] / "bad.toml"
    path.write_text(TABLE.replace(before, after), encoding="utf-8")
    if after.startswith("less"):
        with pytest.raises(UnknownName, match=message):
            read(str(path))
        return
    found = reproduce(read(str(path)), made[0] / "run")
    lost = [cell["why"] for cell in found["rows"][0]["cells"] if cell["score"] is None]
    assert len(lost) == 1, lost
    assert message in lost[0]


LIKE = """
paper = "A paper"
where = "Table 3"
title = "Trainings"
units = "pixels"
[trainings.plain]
encoder = "zoo:digits_cnn"
epochs = 5
method = { name = "simclr", hidden = 3 }
[trainings.robust]
like = "plain"
epochs = 6
[inputs.a]
about = "a"
train = { like = "robust", method = { hidden = 4 } }
[audits.main]
encoders = ["a"]
[profiles.small.trainings.plain.method]
temperature = 0.1
[[columns]]
name = "x"
[[rows]]
name = "y"
"""


def test_trainings_are_like_others(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(LIKE, encoding="utf-8")
    method = {"name": "simclr", "hidden": 4, "temperature": 0.1}
    train = read(str(path), "small").inputs["a"].train
    assert train == {"encoder": "zoo:digits_cnn", "epochs": 6, "method": method}
    path.write_text(LIKE.replace('like = "plain"', 'like = "robust"'), encoding="utf-8")
    with pytest.raises(BadValue, match="robust"):
        read(str(path))


def test_a_claim_may_be_tried_in_some_profiles_only(tmp_path: Path) -> None:
    path, claim = tmp_path / "t.toml", '[[claims]]\ntext = "x"\nat_most = 1\ncolumn = "x"\nprofiles = ["full"]\n'
    path.write_text(LIKE + claim, encoding="utf-8")
    assert [one.text for one in read(str(path)).claims] == ["x"]
    assert read(str(path), "small").claims == ()
