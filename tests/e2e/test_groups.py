"""Methods of several seeds each, compared as encoders are: which encoders are meant, what is said, what is refused."""

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from test_command_line import refused, run
from test_compare import ATTACK, change, encoder, row

import holdfast
from holdfast.auditing.plan import Plan
from holdfast.comparison.records import open_run
from holdfast.core import HoldfastError
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.runtime.errors import BadValue
from json_records import compare_runs, run_audit

SEEDS = {name: number for number, name in enumerate(("a-0", "a-1", "a-2", "b-0", "b-1", "b-2", "c"))}
GROUPS = {"one": "a-*", "two": ["b-0", "b-1", "b-2"]}


def audit(folder: Path, names: dict[str, int]) -> str:
    measures = (BreakawayRisk(ATTACK), CosineToSelf(ATTACK))
    asked = {"data": "digits", "measures": measures, "checks": (Collapse(),), "images": 60, "attacked": 30}
    encoders = {name: encoder(name, seed) for name, seed in names.items()}
    run_audit(Plan(encoders=tuple(names), **asked), folder, encoders=encoders)
    return str(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    return audit(tmp_path_factory.mktemp("audits") / "all", SEEDS)


@pytest.fixture
def whole(made: str, tmp_path: Path) -> str:
    """A copy of the audit of all seeds, which a test may change."""
    shutil.copytree(made, tmp_path / "all", ignore=shutil.ignore_patterns("cache", "pictures"))
    return str(tmp_path / "all")


def compared(folder: str, groups: Any = GROUPS, **options: Any) -> dict[str, Any]:
    return compare_runs([open_run(folder)], groups=groups, **options)


def test_methods_are_compared_by_the_means_of_their_seeds(whole: str) -> None:
    data, alone = compared(whole), compare_runs([open_run(whole)])
    assert [(e["name"], [seed["name"] for seed in e["seeds"]]) for e in data["encoders"]] == [
        ("one", ["a-0", "a-1", "a-2"]),
        ("two", ["b-0", "b-1", "b-2"]),
    ]
    assert data["comparisons"] == 2
    assert data["left_out"] == ["c: left out, in no group"]
    for name, m in data["measures"].items():
        means = {}
        for group, letter in (("one", "a"), ("two", "b")):
            line = row(data, name, group)
            seeds = {f"{letter}-{k}": row(alone, name, f"{letter}-{k}")["score"] for k in range(3)}
            assert line["seeds"] == seeds
            values = [seed["value"] for seed in seeds.values()]
            means[group] = float(np.mean(values))
            assert line["score"]["value"] == pytest.approx(means[group])
            half = stats.t.isf(0.025, 2) * stats.sem(values)  # of seeds alone
            assert line["score"]["high"] - line["score"]["value"] > half
        [pair] = m["pairs"]
        assert pair["difference"]["value"] == pytest.approx(means["one"] - means["two"])
        decided = not pair["difference"]["low"] <= 0 <= pair["difference"]["high"]
        assert decided == (pair["p"] <= 0.05)
        assert (pair["winner"] is not None) == (pair["p_adjusted"] <= 0.05)


def test_one_folder_and_a_folder_for_each_seed_say_the_same(whole: str, tmp_path: Path, monkeypatch) -> None:
    for name in ("a-0", "a-1", "b-0", "b-1"):
        audit(tmp_path / "each" / name, {"encoder": SEEDS[name]})
    together = compared(whole, {"a": ["a-0", "a-1"], "b": ["b-0", "b-1"]})
    monkeypatch.chdir(tmp_path)
    places = [f"each/{name}" for name in ("a-0", "a-1", "b-0", "b-1")]
    runs = [open_run(place) for place in places]
    for a, b in (("each/a-*", "./each/b-*"), ("a-?", "b-?"), (f"{tmp_path}/each/a-*", "encoder (b-*)")):
        apart = compare_runs(runs, groups={"a": a, "b": b})
        for name, m in together["measures"].items():
            for mine, ours in zip(apart["measures"][name]["pairs"], m["pairs"], strict=True):
                for end in ("value", "low", "high"):
                    assert mine["difference"][end] == pytest.approx(ours["difference"][end], abs=1e-6)


def collapse(*numbers: int) -> Callable[[dict[str, Any]], None]:
    """Return what lets encoders of a record collapse."""

    def edit(record: dict[str, Any]) -> None:
        for number in numbers:
            record["encoders"][number]["checks"]["collapse"] |= {"status": "fail", "finding": "all alike"}

    return edit


def test_a_method_is_ranked_without_a_seed_that_collapsed_and_is_not_the_best(capsys, whole: str) -> None:
    best = compared(whole, correction="none")["measures"]["cosine_to_self"]["leader"]
    letter, others, number = {"one": ("a", "two", 1), "two": ("b", "one", 4)}[best]
    change(whole, collapse(number))
    data = compared(whole, correction="none")
    alone = compare_runs([open_run(whole)])
    for name, m in data["measures"].items():
        line = row(data, name, best)
        values = [row(alone, name, f"{letter}-{k}")["score"]["value"] for k in (0, 2)]
        assert line["score"]["value"] == pytest.approx(np.mean(values))
        assert list(line["seeds"]) == [f"{letter}-0", f"{letter}-2"]
        assert line["rank"] is not None
        assert m["best"] != best
        assert row(data, name, others)["rank"] is not None
    said = f"{best}: the mean is over the other seeds of 3, without {letter}-1: a check failed "
    said += "(nearly one representation for all images)"
    assert data["cautions"] == [said]
    [method] = [e for e in data["encoders"] if e["name"] == best]
    assert (method["unfit"], method["warns"]) == ([], ["collapse"])
    assert method["bars"] == [f"collapse warns: {letter}-1: all alike"]
    _, out, _ = run(capsys, "compare", whole, "--groups", "one=a-*,two=b-*", "--correction", "none")
    assert said in " ".join(out.split())


def test_seeds_that_collapsed_void_their_method_where_one_is_left(capsys, whole: str) -> None:
    change(whole, collapse(0, 1))
    data = compared(whole)
    for name, m in data["measures"].items():
        assert row(data, name, "one")["rank"] is None
        assert row(data, name, "one")["score"] is None
        assert not m["pairs"]
        assert not m["best"]
    _, out, _ = run(capsys, "compare", whole, "--groups", "one=a-*,two=b-*")
    assert "one is not ranked: a check failed (nearly one representation for all images) for a-0 and a-1" in " ".join(
        out.split()
    )


def test_a_seed_that_looks_untrained_keeps_its_method_from_every_place(whole: str) -> None:
    best = compared(whole, correction="none")["measures"]["cosine_to_self"]["leader"]
    at = {"one": 1, "two": 4}[best]

    def call(record: dict[str, Any]) -> None:
        record["encoders"][at]["checks"]["collapse"] |= {"status": "warn", "called": "Looks untrained"}

    change(whole, call)
    data = compared(whole, correction="none")
    assert row(data, "cosine_to_self", best)["rank"] is None
    assert data["measures"]["cosine_to_self"]["leader"] != best
    [method] = [e for e in data["encoders"] if e["name"] == best]
    assert method["called"] == "Looks untrained"
    assert [bool(seed["called"]) for seed in method["seeds"]] == [False, True, False]
    # no medium gives a p, a difference to the first or a winner where the terminal says "–"
    line = row(data, "cosine_to_self", best)
    assert line["behind"] is None
    [pair] = data["measures"]["cosine_to_self"]["pairs"]
    assert (pair["p"], pair["p_adjusted"], pair["winner"]) == (None, None, None)
    assert pair["difference"]["value"] is not None
    shown = holdfast.compare(whole, groups=GROUPS, correction="none")
    for transpose in (False, True):
        for text in (shown.to_latex(p_values=True, transpose=transpose), shown.to_markdown(p_values=True)):
            table = text.partition("\\end{tabular}")[0] if "tabular" in text else text
            assert table.count(", not ranked") == 2  # one of each measure
            assert "textless" not in table
            assert "\\< 0.001" not in table
    page = Path(shown.report(Path(whole).parent / "page.html")).read_text()
    assert page.count(f"not ranked: {best}") >= 2
    assert "favours" not in page


@pytest.mark.parametrize(("standing", "kept"), [(("at most",), "at most"), (("at most", "at least"), "void")])
def test_a_bound_of_a_seed_makes_a_bound_of_its_method(whole: str, standing: tuple[str, ...], kept: str) -> None:
    def weaken(record: dict[str, Any]) -> None:
        for entry, side in zip(record["encoders"], standing, strict=False):
            m = entry["measures"]["cosine_to_self"]
            m["scores"][m["headline"]]["if_weak"] = side
            entry["checks"]["collapse"] |= {"status": "fail", "consequence": "one side"}

    change(whole, weaken)
    data = compared(whole, correction="none")
    score = row(data, "cosine_to_self", "one")["score"]
    assert (score["standing"], score["because"]) == (kept, ["collapse"])
    [pair] = data["measures"]["cosine_to_self"]["pairs"]
    assert pair["winner"] != "one"


def test_a_seed_without_a_number_is_left_out_of_the_mean_where_two_others_have_one(whole: str) -> None:
    change(whole, lambda record: record["encoders"][2]["measures"].pop("cosine_to_self"))
    data = compared(whole)
    line = row(data, "cosine_to_self", "one")
    assert line["rank"] is not None
    assert list(line["seeds"]) == ["a-0", "a-1"]
    [said] = data["cautions"]
    assert "without a-2 on Cosine" in said
    assert said.endswith(": not measured")
    assert list(row(data, "breakaway_risk", "one")["seeds"]) == ["a-0", "a-1", "a-2"]

    change(whole, lambda record: record["encoders"][1]["measures"].pop("cosine_to_self"))
    line = row(compared(whole), "cosine_to_self", "one")
    assert (line["score"], line["rank"]) == (None, None)
    assert line["why_not"] == "no number: a-1: not measured"


def test_what_is_written_has_methods_in_the_place_of_encoders(capsys, whole: str, tmp_path: Path) -> None:
    outputs = {kind: tmp_path / f"table.{kind}" for kind in ("csv", "latex", "markdown", "html")}
    options = [word for kind, path in outputs.items() for word in (f"--{kind}", str(path))]
    code, out, _ = run(capsys, "compare", whole, "--groups", "one=a-*,two=b-*", *options)
    said = " ".join(out.split())
    assert code == 0
    assert "means of 3 seeds each" in said
    assert "2 methods of 3 seeds each" in said
    assert "c: left out, in no group" in said
    with outputs["csv"].open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["encoder"], line["seeds"]) for line in lines} == {("one", "3"), ("two", "3")}
    assert "\none & " in outputs["latex"].read_text()
    assert "| method |" in outputs["markdown"].read_text()
    page = outputs["html"].read_text()
    assert all(f"<td>{name}</td>" in page for name in SEEDS if name != "c")
    _, out, _ = run(capsys, "compare", whole, "--groups", "one=a-*,two=b-*", "--json")
    assert [e["name"] for e in json.loads(out)["encoders"]] == ["one", "two"]
    assert "leave out --groups" in refused(
        capsys, "compare", whole, "--groups", "one=a-*,two=b-*", "--eval-results", str(tmp_path), "--benchmark", "o/n"
    )


def test_in_python(whole: str) -> None:
    comparison = holdfast.compare(whole, groups=GROUPS)
    assert list(comparison.to_pandas("pairs")["first"]) == ["one", "one"]
    assert "3 seeds each" in str(comparison)
    assert comparison.figures  # of all encoders, as without groups
    assert len(holdfast.compare(whole, groups={"one": "a-*"}).data["encoders"]) == 1  # a number for a table


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({}, "a method or more"),
        ({"one": []}, "names of encoders for 'one'"),
        ({"one": "zz*", "two": "b-*"}, "match 'zz*'"),
        ({"one": "a-0", "two": "b-*"}, "two seeds of 'one'"),
        ({"one": "*", "two": "b-*"}, "b-0 in 'one' and 'two'"),
        ({"one": 3}, "groups"),
    ],
)
def test_groups_that_cannot_be_are_refused(whole: str, groups: Any, said: str) -> None:
    with pytest.raises(HoldfastError) as error:
        holdfast.compare(whole, groups=groups)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["a-*", "one=", "=a-*", "one=a-*,", "one=a-*,one=b-*"])
def test_texts_that_are_no_groups_are_refused(capsys, whole: str, text: str) -> None:
    assert "groups: expected " in refused(capsys, "compare", whole, "--groups", text)


def test_a_copy_is_no_other_seed(whole: str) -> None:
    def copy(record: dict[str, Any]) -> None:
        record["encoders"][1]["fingerprint"] = record["encoders"][0]["fingerprint"]

    change(whole, copy)
    with pytest.raises(BadValue) as error:
        compared(whole)
    assert "a-0 and a-1 have the same weights" in str(error.value)


def test_figures_are_of_methods_with_one_line_each(whole: str, tmp_path: Path, capsys) -> None:
    compared = holdfast.compare(whole, groups=GROUPS)
    assert compared.figures[0] == "methods"
    assert compared.cite() == holdfast.open(whole).cite()
    alone = holdfast.compare(whole, groups=GROUPS, measures=["cosine_to_self"]).cite()
    assert "% behind cosine_to_self\n" in alone
    assert "breakaway_risk" not in alone
    drawn = list(csv.DictReader(io.StringIO(compared.figure("methods").csv())))
    for name in ("one", "two"):
        rows = [line for line in drawn if line["name"] == name]
        scores = [row(compared.data, measure, name)["score"] for measure in compared.data["measures"]]
        shares = [score for score in scores if (score["unit"] or "share") == "share"]
        assert len(rows) == len({line["row"] for line in rows}) > 0
        assert [float(line["x"]) for line in rows] == pytest.approx([score["value"] for score in shares][: len(rows)])
    # no figure shows a seed, and none has more colours than there are methods
    for figure in map(compared.figure, compared.figures):
        lines = list(csv.DictReader(io.StringIO(figure.csv())))
        names = {line["name"] for line in lines if line.get("name")}
        assert names <= {"one", "two"}, figure.name
        assert "a-0" not in figure.caption
        assert figure.caption.count("Methods, means over 3 seeds each") <= 1
    status, _, _ = run(
        capsys, "figures", whole, "--groups", "one=a-*,two=b-*", "--out", str(tmp_path / "figures"), "--format", "csv"
    )
    assert status == 0
    assert (tmp_path / "figures" / "methods.csv").read_text() == compared.figure("methods").csv()
