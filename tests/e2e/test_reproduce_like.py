"""Recipes that share their text: files and audits like others, measures spread over values, what a noise learned."""

import math
from pathlib import Path

import pytest

from holdfast.auditing.plan_file import plan_from
from holdfast.comparison.records import Run
from holdfast.core import HoldfastError, Score
from holdfast.runtime.errors import BadValue, Failed, Missing, UnknownName
from holdfast.storage.entry import BallEntry
from holdfast.storage.filesystem import Folder
from holdfast.storage.pictured import Covariance, Means, NoiseEntry, NoiseTraining, Weights
from holdfast.workflows.reproduce.cells import noise
from holdfast.workflows.reproduce.claim import Cell, Claim
from holdfast.workflows.reproduce.recipe import profiles, read, read_file
from holdfast.workflows.reproduce.verdict import FAILS, HOLDS, judge
from json_records import encoder_entry, reproduce, small_record

BASE = """
paper = "A paper"
where = "Table 1"
title = "Noise"
units = "ε in pixels of a [0, 1] image"
minutes = 3
[inputs.images]
about = "photos"
spec = "digits"
[inputs.first]
about = "an encoder"
spec = "zoo:digits-simclr"
[inputs.second]
about = "another"
spec = "zoo:digits-simclr-adv"
[audits.main]
data = "{images}"
encoders = ["first"]
images = 60
attacked = 20
eps = 0.2
[[audits.main.measures]]
name = "worst_noise_robustness"
each = { "learner.structure" = ["independent", "input"], "learner.components" = [1, 3] }
[audits.main.measures.learner]
name = "worst_mixture"
epochs = 3
latent = 4
hidden = 8
covariance = "diagonal"
[audits.other]
like = "main"
encoders = ["second"]
eps = 0.1
[[columns]]
name = "NPPR"
[[columns]]
name = "train"
noise = "chance"
[[columns]]
name = "start"
noise = "chance"
along = 0
[[columns]]
name = "ER"
noise = "entropy"
[[columns]]
name = "Max"
noise = "largest"
[[rows]]
name = "one"
audit = "main"
encoder = "first"
measure = "worst_noise_robustness[structure=input,components=3]"
[[rows]]
name = "single"
audit = "main"
encoder = "first"
measure = "worst_noise_robustness[structure=independent,components=1]"
[[rows]]
name = "two"
audit = "other"
encoder = "second"
measure = "worst_noise_robustness[structure=input,components=3]"
[profiles.small]
minutes = 1
[profiles.small.audits.main]
images = 40
"""
OVER = """
like = "base"
where = "Table 2"
[profiles.small.audits]
other = ""
[[profiles.small.rows]]
name = "one"
audit = "main"
encoder = "first"
measure = "worst_noise_robustness[structure=input,components=3]"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"base": BASE, "over": OVER, "loop": 'like = "loop"', "lost": 'like = "nobody"'}.items():
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_file_lies_over_the_one_it_is_like(folder: Path) -> None:
    base, full = read(str(folder / "base.toml")), read(str(folder / "over.toml"))
    assert full.where == "Table 2"
    assert full.audits == base.audits
    assert profiles(read_file(folder / "over.toml")) == ["full", "small"]
    small = read(str(folder / "over.toml"), "small")
    assert (small.minutes, small.audits["main"]["images"]) == (1, 40)
    assert "other" not in small.audits
    assert "second" not in small.inputs


@pytest.mark.parametrize(("name", "kind", "message"), [("loop", BadValue, "loop"), ("lost", Missing, "nobody")])
def test_a_file_like_itself_or_none_is_refused(
    folder: Path, name: str, kind: type[HoldfastError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        read(str(folder / f"{name}.toml"))


def test_audits_are_alike_and_measures_spread(folder: Path) -> None:
    audits = read(str(folder / "base.toml"), "small").audits
    learners = [one["learner"] for one in audits["main"]["measures"]]
    assert [(one["structure"], one["components"]) for one in learners] == [
        ("independent", 1), ("independent", 3), ("input", 1), ("input", 3),
    ]  # fmt: skip
    assert all(one["epochs"] == 3 for one in learners)
    assert audits["other"] == {**audits["main"], "encoders": ["second"], "eps": 0.1}
    for before, after, kind, message in [
        ('"learner.components" = [1, 3]', '"learner.components" = 3', BadValue, "each"),
        ('like = "main"', 'like = "mine"', UnknownName, "mine"),
    ]:
        (folder / "bad.toml").write_text(BASE.replace(before, after), encoding="utf-8")
        with pytest.raises(kind, match=message):
            read(str(folder / "bad.toml"))


@pytest.mark.slow
def test_what_a_noise_learned_stands_in_the_table(folder: Path) -> None:
    few = BASE.replace('"learner.structure" = ["independent", "input"], ', "")
    few = few.replace("structure=input,", "").replace("structure=independent,", "")
    (folder / "few.toml").write_text(few, encoding="utf-8")
    found = reproduce(read(str(folder / "few.toml")), folder / "run")
    assert found["failures"] == []
    for row in found["rows"]:
        nppr, train, start, entropy, largest = (cell["score"] for cell in row["cells"])
        assert 0 <= nppr["value"] <= 1
        assert train["n"] == 40  # images that are not attacked
        assert train["low"] < train["value"] < train["high"] or train["value"] in (0, 1)
        assert start["value"] >= train["value"]
        if row["name"] == "single":
            assert entropy["value"] is None
            assert largest["value"] == 1
        else:
            assert 0 < entropy["value"] <= 1
            assert 1 / 3 <= largest["value"] < 1
    first, _, second = found["rows"]
    assert second["cells"][0]["score"]["value"] > first["cells"][0]["score"]["value"]  # a smaller ball, and hardened


COMMON = {"structure": "input", "failure": "nearest", "ball": BallEntry(name="linf", radius=0.1), "file": None}
LEARNED = NoiseEntry(
    measures=["a"], training=NoiseTraining(chance=[0.9, 0.8, 0.5], entropy=[0.9, None, 0.1]), learned_on=50, images=9,
    weights=Weights(mean=[0.7, 0.2, 0.1], groups=[]), grouped="class", groups=[], table="t", cells=3, origin=[0, 0],
    explained=[], means=Means(table="t", size=1), covariance=Covariance(table="t", size=1, block=1), pictures=[],
    **COMMON,
)  # fmt: skip
FAILED = NoiseEntry(
    measures=["b"], training=NoiseTraining(chance=[1.0], entropy=[1.0]), learned_on=50, problem="no draws", **COMMON
)
RUN = Run("run", Folder("run"), small_record([encoder_entry("e", noises=[LEARNED, FAILED])]))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ({"noise": "chance"}, 0.5), ({"noise": "chance", "along": 0.5}, 0.8), ({"noise": "entropy", "along": 0}, 0.9),
        ({"noise": "entropy", "along": 0.5}, None), ({"noise": "evenness"}, 0.729847),
        ({"noise": "largest"}, 0.7), ({"noise": "smallest"}, 0.1),
        ({"noise": "spread"}, math.sqrt(((0.7 - 1 / 3) ** 2 + (0.2 - 1 / 3) ** 2 + (0.1 - 1 / 3) ** 2) / 2)),
    ],
)  # fmt: skip
def test_facts_of_a_noise(at: dict, value: float | None) -> None:
    found = noise(RUN, {"encoder": "e", "measure": "a", **at})
    assert found.value == (None if value is None else pytest.approx(value))
    assert (found.low is not None) == (at["noise"] == "chance")


@pytest.mark.parametrize(
    ("at", "kind", "message"),
    [
        ({"measure": "c", "noise": "chance"}, UnknownName, "'c'"),
        ({"measure": "a", "noise": "mean"}, UnknownName, "'mean'"),
        ({"measure": "a", "noise": "chance", "along": 2}, BadValue, "between 0 and 1"),
        ({"measure": "b", "noise": "largest"}, Failed, "draws"),
    ],
)
def test_facts_that_a_noise_has_not(at: dict, kind: type[HoldfastError], message: str) -> None:
    with pytest.raises(kind, match=message):
        noise(RUN, {"encoder": "e", **at})


def test_lists_of_names_are_chains() -> None:
    values = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
    cells = {(n, "x"): Cell(n, "x", Score(v, v - 0.01, v + 0.01, 100, "exact")) for n, v in values.items()}
    good = Claim("c", "rises", [["a", "c"], ["b", "d"]], columns=("x",))
    assert good.chains() == [["a", "b"], ["c", "d"]]
    assert judge(good, cells, lambda a, b: 0.0).outcome == HOLDS
    bad = Claim("c", "rises", [["a", "d"], ["b", "c"]], columns=("x",))
    assert judge(bad, cells, lambda a, b: 0.0).outcome == FAILS
    with pytest.raises(BadValue, match="rises"):
        Claim("c", "rises", [["a", "c"], ["b"]], columns=("x",)).check(list(values), ["x"])


def test_the_radius_of_a_plan_reaches_what_a_stated_noise_does_not_state() -> None:
    def asked(**noise: object) -> float:
        measure = {"name": "probabilistic_robustness", "noise": {"kind": "threats", "name": "uniform", **noise}}
        plan = plan_from({"encoders": ["zoo:digits-simclr"], "data": "digits", "eps": 0.3, "measures": [measure]}, "p")
        return plan.measures[0].noise.ball.radius  # pyright: ignore[reportAttributeAccessIssue]

    assert asked() == 0.3
    assert asked(ball={"kind": "threats", "name": "linf", "radius": 0.1}) == 0.1
