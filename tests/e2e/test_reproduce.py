"""A paper's table by one command: inputs stand in, cells are found, failures are told, every recipe is well formed."""

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from holdfast.auditing import plan_file
from holdfast.auditing.plan_file import plan_from
from holdfast.cli import app
from holdfast.core import HoldfastError
from holdfast.report.documents.reproduction import document
from holdfast.report.render import to_markdown
from holdfast.runtime.errors import BadData, BadValue, Missing, UnknownName
from holdfast.storage.reproduction import UNASKED
from holdfast.training.recipe_file import make_recipe
from holdfast.workflows.reproduce import recipe
from holdfast.workflows.reproduce.recipe import fill_placeholders, names, over, read
from holdfast.workflows.reproduce.rehearse import rehearse, stand_in
from holdfast.workflows.reproduce.run import _audit
from holdfast.workflows.reproduce.table import at_of
from holdfast.workflows.study.file import make_study
from json_records import reproduce, typed_reproduction

TABLE = """
paper = "A paper"
where = "Table 1"
title = "Risks | of <two> encoders"
units = "ε in pixels of a [0, 1] image"
[inputs.images]
about = "photos"
[inputs.clean]
about = "an encoder"
[inputs.robust]
about = "one trained on attacked images"
[profiles.small.inputs]
images = { spec = "digits", says = "digits" }
clean = { spec = "zoo:digits-simclr" }
robust = { spec = "zoo:digits-simclr-adv" }
[audits.main]
data = "{images}"
encoders = ["clean", "robust"]
images = 1000
attacked = 1000
set = ["*.ball.radius=0.2"]
measures = [{ name = "universal_quantile" , attack = { name = "pgd", steps = 10 } }]
[profiles.small.audits.main]
images = 60
attacked = 40
[[columns]]
name = "UQ"
audit = "main"
measure = "universal_quantile"
scale = 100
unit = "%"
[[rows]]
name = "clean"
encoder = "clean"
published = [30.0]
[[rows]]
name = "robust"
encoder = "robust"
published = ["-"]
[[rows]]
name = "lost"
encoder = "nobody"
[[claims]]
text = "training on attacked images lowers the quantile"
falls = ["clean", "robust"]
column = "UQ"
[[claims]]
text = "so does nothing"
falls = ["robust", "lost"]
column = "UQ"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("reproduce")
    (folder / "t.toml").write_text(TABLE, encoding="utf-8")
    said = CliRunner().invoke(
        app, ["reproduce", str(folder / "t.toml"), "--profile", "small", "--out", str(folder / "run"), "--json"]
    )
    assert said.exit_code == 0, said.output
    return folder, json.loads(said.stdout)


def test_numbers_stand_beside_the_published_ones(made: tuple[Path, dict]) -> None:
    folder, found = made
    record = json.loads((folder / "run/audits/main/record.json").read_text())
    clean, robust, lost = (row["cells"][0] for row in found["rows"])
    assert clean["published"] == 30.0
    assert robust["published"] is None
    for cell, entry in zip((clean, robust), record["encoders"], strict=True):
        measure = entry["measures"]["universal_quantile"]
        score = measure["scores"][measure["headline"]]
        assert cell["score"] == score
    assert lost["score"] is None
    assert "nobody" in lost["why"]
    assert found["claims"] == []  # digits are none of the images that they name
    assert found["agreement"] == []
    assert found["inputs"]["images"] == {"about": "photos", "says": "digits", "spec": "digits", "problem": None}


def test_the_markdown_shows_text_as_it_is(made: tuple[Path, dict]) -> None:
    text = (made[0] / "run/reproduction.md").read_text(encoding="utf-8")
    assert "Risks \\| of \\<two\\> encoders" in text
    assert re.search(r"^\| clean \| 30 / \d", text, re.MULTILINE)
    assert re.search(r"^\| robust \| \d", text, re.MULTILINE)  # nothing is published: ours alone
    assert "| lost | none |" in text
    assert "Each cell: published / ours \\[95 % interval\\]; one number alone is ours." in text
    assert "How many images or pairs ours are of: 40." in text
    assert "Claims, on" not in text
    assert "Their numbers say nothing of the paper" in text


def test_a_table_without_intervals_promises_none(made: tuple[Path, dict]) -> None:
    found = copy.deepcopy(made[1])
    for row in found["rows"][:2]:
        row["cells"][0]["score"] |= {"low": None, "high": None}
    text = to_markdown(document(typed_reproduction(found)))
    assert "Each cell: published / ours; one number alone is ours." in text
    assert "How many images" not in text


def test_claims_are_tried_where_the_images_are_real(made: tuple[Path, dict], tmp_path: Path) -> None:
    asked = read(str(made[0] / "t.toml"), "small")
    found = reproduce(asked, tmp_path / "run", says={"images": "copies of the paper's images"})
    assert found["rows"] == made[1]["rows"]
    first, second = found["claims"]
    assert (first["outcome"], first["network"], first["published"]) == ("holds", "authors", None)
    assert second["outcome"] == "not shown"
    assert "nobody" in second["why"]
    (beside,) = found["agreement"]
    cell = found["rows"][0]["cells"][0]["score"]
    assert (beside["row"], beside["column"]) == ("clean", "UQ")
    assert beside["gap"] == pytest.approx(100 * cell["value"] - 30)
    text = to_markdown(document(typed_reproduction(found)))
    assert "copies of the paper's images instead of photos" in text
    assert "1 published number" in text
    another = reproduce(asked, tmp_path / "run", says={"images": "copies", "robust": "another network"})
    assert [claim["network"] for claim in another["claims"]] == ["real", "real"]
    with pytest.raises(UnknownName) as error:
        reproduce(asked, tmp_path / "run", says={"pictures": "copies"})
    assert "unknown input" in str(error.value)


TOGETHER = """
[profiles.small.audits.main]
measures = [
  { name = "universal_quantile", attack = { name = "pgd", steps = 3 } },
  { name = "breakaway_risk", attack = { name = "pgd", steps = 3 } },
]
[[profiles.small.columns]]
name = "UQ"
audit = "main"
measure = "universal_quantile"
scale = 100
[[profiles.small.columns]]
name = "risk"
audit = "main"
encoder = "{encoder}"
measure = "breakaway_risk"
[[profiles.small.rows]]
name = "clean"
encoder = "clean"
[[profiles.small.rows]]
name = "robust"
encoder = "robust"
[[profiles.small.rows]]
name = "lost"
encoder = "lost"
[[profiles.small.rows]]
name = "together"
among = ["clean", "robust", "lost"]
published = ["-", 0.9]
cells = { risk = { correlates = "UQ" } }
"""


def test_columns_are_correlated_over_the_rows_that_one_names(tmp_path: Path) -> None:
    """Given the encoders, over images: three are enough, and other cells of the row are not asked."""
    text = TABLE.replace("clean = { spec", 'lost = { spec = "zoo:digits_cnn?seed=1" }\nclean = { spec')
    text = text.replace('encoders = ["clean", "robust"]', 'encoders = ["clean", "robust", "lost"]')
    text = text.replace("[audits.main]", '[inputs.lost]\nabout = "a third"\n[audits.main]')
    text = text.replace("[profiles.small.audits.main]\n", TOGETHER.partition("[[")[0])
    (tmp_path / "t.toml").write_text(text + TOGETHER[TOGETHER.index("[[") :], encoding="utf-8")
    found = reproduce(read(str(tmp_path / "t.toml"), "small"), tmp_path / "run", says={"images": "digits"})
    *each, together = found["rows"]
    asked, number = together["cells"]
    assert (asked["score"], asked["why"]) == (None, UNASKED)
    x, y = (np.array([row["cells"][place]["score"]["value"] for row in each]) for place in (0, 1))
    assert number["score"]["value"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert number["scale"] == 1.0
    assert number["score"]["low"] < number["score"]["value"] < number["score"]["high"]
    assert "given the encoders" in number["score"]["interval"]
    assert f"| together |  | 0.9 / {number['score']['value']:.4g}" in to_markdown(document(typed_reproduction(found)))


def test_inputs_can_be_given_and_must_be(made: tuple[Path, dict], tmp_path: Path) -> None:
    asked = read(str(made[0] / "t.toml"))
    assert asked.audits["main"]["images"] == 1000
    with pytest.raises(Missing, match="images=SPEC"):
        reproduce(asked, tmp_path)
    with pytest.raises(UnknownName, match="'pictures'"):
        reproduce(asked, tmp_path, inputs={"pictures": "digits"})


def test_a_second_run_reads_what_is_there_and_its_time_comes_on_top(made: tuple[Path, dict]) -> None:
    asked, first = read(str(made[0] / "t.toml"), "small"), made[1]
    again = reproduce(asked, made[0] / "run")
    assert again["rows"] == first["rows"]
    assert again["seconds"] > first["seconds"]


@pytest.mark.parametrize("found", ['{"seconds": 3.0}', '{"reproduction": null}', "[]"])
def test_what_is_no_reproduction_is_refused_where_one_is_kept(
    made: tuple[Path, dict], tmp_path: Path, found: str
) -> None:
    asked = read(str(made[0] / "t.toml"), "small")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/reproduction.json").write_text(found, encoding="utf-8")
    with pytest.raises(BadData) as refused:
        reproduce(asked, tmp_path / "run")
    assert "reproduction.json" in str(refused.value)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["reproduction.json"]  # before anything is run
    assert (tmp_path / "run/reproduction.json").read_text(encoding="utf-8") == found


def test_what_is_left_out_is_no_failure(made: tuple[Path, dict], tmp_path: Path) -> None:
    asked = read(str(made[0] / "t.toml"), "small")
    found = reproduce(asked, tmp_path / "one", inputs={"robust": "none"})
    clean, robust, _ = (row["cells"][0] for row in found["rows"])
    assert clean["score"]["value"] == made[1]["rows"][0]["cells"][0]["score"]["value"]
    assert (robust["score"], robust["why"]) == (None, "left out, as asked: robust is none")
    assert found["failures"] == []
    nothing = reproduce(asked, tmp_path / "none", inputs={"robust": "none", "clean": "none"})
    assert nothing["failures"] == []
    assert nothing["rows"][0]["cells"][0]["score"] is None
    unseen = reproduce(asked, tmp_path / "unseen", inputs={"images": "none"})
    assert unseen["failures"] == []
    assert {cell["why"] for cell in unseen["rows"][0]["cells"]} == {"left out, as asked: images is none"}
    assert "- none for all of UQ: left out, as asked: images is none\n" in to_markdown(
        document(typed_reproduction(unseen))
    )
    assert "all of" not in to_markdown(document(typed_reproduction(found)))


def test_a_measure_that_fails_is_told(made: tuple[Path, dict], tmp_path: Path) -> None:
    bad = TABLE.replace('clean = { spec = "zoo:digits-simclr" }', 'clean = { spec = "zoo:nothing" }')
    (tmp_path / "t.toml").write_text(bad, encoding="utf-8")
    found = reproduce(read(str(tmp_path / "t.toml"), "small"), tmp_path / "run")
    assert any("nothing" in failure for failure in found["failures"])
    assert found["rows"][0]["cells"][0]["score"] is None
    assert found["rows"][1]["cells"][0]["score"] is not None


@pytest.mark.parametrize(
    ("before", "after", "kind", "message"),
    [
        ('where = "Table 1"', "", Missing, "where"),
        ("[[columns]]", "[[pillars]]", UnknownName, "pillars"),
        ("published = [30.0]", "published = [30.0, 1.0]", BadValue, "published"),
        ('measure = "universal_quantile"\n', 'measure = "universal_quantile"\nours = true\n', BadValue, "published"),
        ('falls = ["clean", "robust"]', 'falls = ["clean", "strong"]', UnknownName, "strong"),
        ('encoder = "nobody"', 'among = ["none"]', UnknownName, r"row.*'lost'"),
        ('encoder = "nobody"', 'cells = { UQ = { correlates = "nothing" } }', UnknownName, r"column.*'lost'"),
        ('falls = ["clean", "robust"]', 'sinks = ["clean", "robust"]', UnknownName, "sinks"),
        ('about = "photos"', 'abut = "photos"', UnknownName, "about"),
        ('paper = "A paper"', "paper = A", BadData, "TOML"),
    ],
)
def test_recipes_that_say_what_nobody_knows_are_refused(
    tmp_path: Path, before: str, after: str, kind: type[HoldfastError], message: str
) -> None:
    (tmp_path / "t.toml").write_text(TABLE.replace(before, after), encoding="utf-8")
    with pytest.raises(kind, match=message):
        read(str(tmp_path / "t.toml"), "small")


@pytest.mark.slow
def test_a_rehearsal_says_what_would_get_no_number(made: tuple[Path, dict], tmp_path: Path) -> None:
    run = ["reproduce", str(made[0] / "t.toml"), "--rehearse", "--quiet", "--json"]
    result = CliRunner().invoke(app, run, env={"COLUMNS": "200"})
    assert result.exit_code == 1, result.output
    rehearsal = json.loads(result.stdout)
    assert (rehearsal["cells"], rehearsal["claims"]) == (3, 2)
    assert len(rehearsal["empty"]) == 1
    assert rehearsal["empty"][0].startswith("lost, UQ: ")
    assert rehearsal["lost"] == ["so does nothing"]
    result = CliRunner().invoke(app, [*run, "--input", "clean=digits"])
    assert "leave out --input" in result.output + str(result.exception)
    assert result.exit_code != 0
    whole = TABLE.replace('name = "lost"\nencoder = "nobody"', 'name = "lost"\nencoder = "clean"')
    (tmp_path / "t.toml").write_text(whole, encoding="utf-8")
    result = CliRunner().invoke(app, ["reproduce", str(tmp_path / "t.toml"), "--rehearse", "--quiet"])
    assert result.exit_code == 0, result.output
    assert "3 of 3 cells got a number, 2 of 2 claims could be tried" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.toml"]  # it keeps nothing


def test_stand_ins_are_as_large_as_the_images(tmp_path: Path) -> None:
    small = stand_in(read("contrastive-table1"), tmp_path)
    sides = {name: np.load(tmp_path / f"{name}.npz")["images"].shape[1:] for name in ("cifar10", "stl10", "cars196")}
    assert sides == {"cifar10": (32, 32, 3), "stl10": (96, 96, 3), "cars196": (224, 224, 3)}
    assert (small.inputs["byol"].spec or "").startswith("zoo:base_224")
    # Rows of a training that is given name its checkpoints, and its stand-in has none
    given = stand_in(read("contrastive-fig3", "real"), tmp_path)
    assert {row.at["encoder"] for row in given.rows} == {"moco", "sup"}
    trained = stand_in(read("contrastive-fig3", "small"), tmp_path)
    assert all("/" in row.at["encoder"] for row in trained.rows)
    small = stand_in(read("rvcl-table5"), tmp_path)
    assert np.load(tmp_path / "mnist.npz")["images"].shape[1:] == (28, 28, 1)
    training = small.inputs["mnist0"].train or {}
    assert (training["epochs"], training["encoder"]) == (2, "zoo:cnn_a_mnist")


LONG = {"contrastive-tabled5": 5, "synbench-table7": 3}
"""Tables whose rehearsal takes minutes, and how many."""


def _each() -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.slow(minutes=LONG[name])) if name in LONG else name for name in names()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", _each())
def test_every_table_of_the_papers_can_be_run_to_its_end(name: str) -> None:
    rehearsal = rehearse(read(name))
    assert rehearsal.complete, rehearsal


def test_an_unknown_profile_is_refused(made: tuple[Path, dict]) -> None:
    with pytest.raises(UnknownName, match="tiny"):
        read(str(made[0] / "t.toml"), "tiny")


def test_tables_lie_over_each_other() -> None:
    assert over({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [2]}) == {"a": {"b": 3, "c": 2}, "d": [2]}
    assert fill_placeholders({"a": ["{x}/y", 1]}, {"x": "z"}) == {"a": ["z/y", 1]}


def test_every_recipe_asks_what_holdfast_knows(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_file, "open_profile", cache(plan_file.open_profile))  # a few, of some 230 audits
    monkeypatch.setattr(plan_file, "validity_panel", lambda *_: ())  # no recipe says anything about it
    monkeypatch.setattr(recipe, "read_toml", cache(recipe.read_toml))  # of each profile, and of what is like it
    for name in names():
        for profile in recipe.profiles(recipe.read_file(recipe.folder() / f"{name}.toml")):
            with subtests.test(f"{name} {profile}"):
                _asks_what_holdfast_knows(name, profile)


def _asks_what_holdfast_knows(name: str, profile: str) -> None:
    asked = read(name, profile)
    specs = {key: one.spec or f"file:{key}.safetensors" for key, one in asked.inputs.items()}
    for key, one in asked.inputs.items():
        if one.train is not None:
            make_recipe(fill_placeholders(one.train, specs), where=f"{name}: {key}")
        assert profile != "small" or one.spec or one.train is not None, f"{name}: {key} has nothing in {profile}"
    measures = {}
    for key, table in asked.audits.items():
        plan = plan_from(_audit(table, specs, {}, "cpu", 0), f"{name}: {key}")
        measures[key] = recipe_measures(plan)
    for key, table in asked.studies.items():
        make_study(fill_placeholders(table, specs), f"{name}: {key}")
    for row in asked.rows:
        for column in asked.columns:
            at = at_of(row, column)
            if "study" in at:
                assert at["study"] in asked.studies
            elif at.get("measure") and "among" not in at:  # it is made of other cells
                assert at["measure"] in measures[at["audit"]], f"{name}: {row.name}, {column.name}"
                encoder = at.get("encoder", "").partition("/")[0]  # NAME/epoch-0001 is a checkpoint of NAME
                assert encoder in asked.audits[at["audit"]]["encoders"], f"{name}: {row.name}"


def recipe_measures(plan: recipe.Any) -> set[str]:
    from holdfast.core.naming import name_parts

    return set(name_parts(plan.measures))
