"""A table filled once for each seed: means over trainings, and both kinds of chance in the verdicts."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from holdfast.core import Score
from holdfast.report.documents.reproduction import document
from holdfast.report.render import to_markdown
from holdfast.runtime.errors import BadValue, NotEnough
from holdfast.workflows.reproduce.claim import Cell, Claim
from holdfast.workflows.reproduce.recipe import assemble, read
from holdfast.workflows.reproduce.trainings import deviation, over_trainings, together
from holdfast.workflows.reproduce.verdict import judge
from json_records import reproduce, typed_reproduction

TABLE = """
paper = "A paper"
where = "Table 3"
title = "Trainings"
units = "percent"
seeds = [0, 1, 2]
columns = [
  { name = "accuracy", audit = "main", measure = "probe_accuracy", scale = 100 },
  { name = "±", audit = "main", measure = "probe_accuracy", trainings = "std", scale = 100 },
]
rows = [{ name = "trained", encoder = "own", published = [90, 1] }, { name = "shipped", encoder = "shipped" }]
claims = [{ text = "shipped is better", above = ["shipped", "trained"], column = "accuracy" }]
[inputs.images]
about = "images"
spec = "digits"
[inputs.shipped]
about = "an encoder"
spec = "zoo:digits-simclr"
[inputs.own]
about = "a training"
[inputs.own.train]
encoder = "zoo:digits_cnn"
method = "supervised"
data = "digits?part=train"
images = 300
batch_size = 64
epochs = 2
optimiser = { name = "adam", rate = 2e-3, weight_decay = 0 }
[audits.main]
data = "{images}"
train = "digits?part=train"
train_images = 200
profile = "contrastive"
encoders = ["own", "shipped"]
images = 200
attacked = 200
measures = [{ name = "probe_accuracy", probe = { name = "knn", k = 5 } }]
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "table.toml").write_text(TABLE)
    result = reproduce(read(str(folder / "table.toml")), folder / "run", seed=4)
    return {"record": result, "folder": folder / "run"}


def accuracies(folder: Path, encoder: str) -> list[float]:
    records = [json.loads((folder / f"seed-{seed}/audits/main/record.json").read_text()) for seed in (4, 5, 6)]
    assert len({record["data"]["fingerprint"] for record in records}) == 1  # the same images
    rows = [next(e for e in record["encoders"] if e["name"] == encoder) for record in records]
    entries = [row["measures"]["probe_accuracy"] for row in rows]
    return [entry["scores"][entry["headline"]]["value"] for entry in entries]


def test_cells_are_those_of_all_trainings(record: dict) -> None:
    table, folder = record["record"], record["folder"]
    assert table["failures"] == []
    assert table["seeds"] == [4, 5, 6]
    (trained, between), (shipped, none) = (row["cells"] for row in table["rows"])
    values = accuracies(folder, "own")
    assert len(set(values)) > 1  # another seed is another training
    assert trained["each"] == values
    # Wider than over images alone, and than over trainings alone
    alone = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    low, high = (trained["score"][end] for end in ("low", "high"))
    assert low < alone[0] < alone[1] < high
    assert trained["score"]["value"] == pytest.approx(np.mean(values))
    assert between["score"]["value"] == pytest.approx(np.std(values, ddof=1))
    # what is not trained is the same each time, and so has no spread
    same = accuracies(folder, "shipped")
    assert len(set(same)) == 1
    assert shipped["score"]["value"] == pytest.approx(same[0])
    assert "over images alone" in shipped["score"]["note"]
    assert none["score"]["value"] == 0
    text = to_markdown(document(typed_reproduction(table)))
    assert "the mean of 3 trainings" in text
    assert f" [{100 * low:.3g}, {100 * high:.3g}] |" in text
    assert "{" not in text


def test_the_deviation_has_the_interval_of_normal_numbers() -> None:
    """The paper's three MoCo-v2 might be anything between .09 and 1.1 apart."""
    values = [82.44 - 0.18, 82.44, 82.44 + 0.18]
    score = deviation(values)
    assert score.value == pytest.approx(0.18)
    assert (score.low, score.high) == pytest.approx((0.0937, 1.131), abs=1e-3)
    random = np.random.default_rng(0)
    held = [deviation(random.normal(0, 2, 4).tolist()) for _ in range(400)]
    assert 0.92 < np.mean([s.low <= 2 <= s.high for s in held if s.low and s.high]) < 0.98
    with pytest.raises(NotEnough, match="got 1"):
        deviation([1.0])


def cell(row: str, each: tuple[float, ...]) -> Cell:
    """A number that images know to half a point, of several trainings."""
    scores = [Score(value, value - 0.005, value + 0.005, 10000, "t") for value in each]
    recipe = assemble(
        {**tomllib.loads(TABLE), "columns": [{"name": "c"}], "rows": [{"name": row}], "claims": []}, "t", "full"
    )
    return together(recipe, [{(row, "c"): Cell(row, "c", score)} for score in scores], range(len(each)))[row, "c"]


def test_one_interval_is_about_images_and_trainings() -> None:
    score = cell("a", (0.85, 0.86, 0.87)).score
    assert score is not None
    half = float(np.hypot(0.005, stats.t.isf(0.025, 2) * 0.01 / np.sqrt(3)))
    assert (score.value, score.low, score.high) == pytest.approx((0.86, 0.86 - half, 0.86 + half), abs=1e-6)


@pytest.mark.parametrize(
    ("upper", "outcome"),
    [((0.9, 0.901, 0.902), "holds"), ((0.98, 0.82, 0.9), "not shown")],
    ids=["trainings that agree", "trainings that do not"],
)
def test_a_difference_of_trainings_must_be_one_of_trainings(upper: tuple[float, ...], outcome: str) -> None:
    cells = {("a", "c"): cell("a", (0.85, 0.853, 0.85)), ("b", "c"): cell("b", upper)}
    verdict = judge(Claim("b above a", "above", ["b", "a"], columns=("c",)), cells, lambda a, b: 0.0)
    assert verdict.outcome == outcome
    limit = judge(Claim("b at least .87", "at_least", 0.87, columns=("c",), rows=("b",)), cells, lambda a, b: 0.0)
    assert limit.outcome == outcome


def test_seeds_are_different(tmp_path: Path) -> None:
    for seeds in ("[1]", "[1, 1]"):
        (tmp_path / "table.toml").write_text(TABLE.replace("seeds = [0, 1, 2]", f"seeds = {seeds}"))
        with pytest.raises(BadValue, match="seeds"):
            read(str(tmp_path / "table.toml"))


def test_trainings_that_agree_have_no_interval() -> None:
    assert over_trainings([0.5, 0.5, 0.5]).low is None
