"""A number whose check failed, in every output: shown as what is left of it, never best, never enough."""

import copy
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from test_command_line import status_of

import holdfast
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.comparison import compare
from holdfast.comparison.exports import rows
from holdfast.comparison.records import open_run
from holdfast.report.documents.audit import document
from holdfast.report.documents.comparison_table import document as table_document
from holdfast.report.documents.comparison_table import latex
from holdfast.report.html import publish
from holdfast.report.leaderboard import render
from holdfast.report.render import print_document, to_markdown
from holdfast.storage.comparison import Leaderboard
from holdfast.storage.entry import as_json
from holdfast.storage.seal import add_seal
from holdfast.storage.standing import allowing, may_lose, may_meet, may_win, settle
from json_records import compare_runs, run_audit, typed

WEAK, STRONG = "zoo:digits-simclr", "zoo:digits-simclr-adv"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Two encoders attacked by steps that cannot cross their ball."""
    folder = tmp_path_factory.mktemp("standing") / "run"
    attack = {"name": "pgd", "steps": 3, "step_size": 0.001}
    measures = [
        {"name": "breakaway_risk", "attack": attack},
        {"name": "nearest_neighbour_accuracy"},
        {"name": "uniformity"},
    ]
    plan = make_plan(AuditRequest(
        [WEAK, STRONG], "digits", profile="quick", measures=measures, eps=0.15, images=60, attacked=60,
        settings=["nearest_neighbour_accuracy.attack.steps=5", "nearest_neighbour_accuracy.passes=10"],
        examined=6, queries=50,
    ))  # fmt: skip
    run_audit(plan, folder)
    return folder


@pytest.fixture
def record(run) -> dict:
    return json.loads((run / "record.json").read_text())


def changed(run: Path, record: dict, to: Path) -> str:
    """A copy of the run with another record."""
    shutil.copytree(run, to)
    (to / "record.json").write_text(json.dumps(add_seal(record)))
    return str(to)


def test_a_score_names_its_checks_and_what_is_left_of_it(record) -> None:
    for row in record["encoders"]:
        risk, found = row["measures"]["breakaway_risk"], row["measures"]["nearest_neighbour_accuracy"]
        score = risk["scores"][risk["headline"]]
        (reach,) = [name for name in score["because"] if name.startswith("reach")]
        assert row["checks"][reach]["status"] == "fail"
        assert score["standing"] == "at least"
        assert {"frozen", "collapse", reach} <= set(score["checks"])
        assert reach not in found["scores"][found["headline"]]["checks"]  # another search, another check
        assert all(not s["because"] for s in row["measures"]["uniformity"]["scores"].values())
        assert not any(
            name.startswith("reach") for s in row["measures"]["uniformity"]["scores"].values() for name in s["checks"]
        )


def test_every_output_says_so_and_none_calls_it_best(run, record, tmp_path) -> None:
    assert record["comparison"]["breakaway_risk"]["best"] is None
    gap = record["comparison"]["breakaway_risk"]["pairs"][0]["difference"]
    assert gap["value"] is None
    assert "known on one side" in gap["note"]
    console = Console(width=160, record=True)
    print_document(document(typed(record)), console)
    text = console.export_text()
    assert text[: text.index("checks passed")].count("at least") + text.count("at least ") >= 2
    assert "*" not in text
    page = Path(publish(str(run))).read_text()
    assert "at least" in page
    data = compare_runs([open_run(str(run))])
    risk = data["measures"]["breakaway_risk"]
    assert risk["best"] is risk["leader"] is None
    assert not any(row["best"] for row in risk["rows"])
    assert all(row["rank"] == [1, 2] for row in risk["rows"])
    compared = compare.compare_runs([open_run(str(run))])
    for text in (
        to_markdown(table_document(compared)),
        latex(compared),
        render(Leaderboard(groups=[compared]), "Comparison"),
    ):
        assert "at least" in text
    exported = [row for row in rows(compared) if row["measure"] == "breakaway_risk" and row["headline"]]
    assert {row["standing"] for row in exported} == {"at least"}
    assert all("reach" in row["because"] for row in exported)
    opened = holdfast.open(run)
    assert "at least" in str(opened)
    assert "at least" in opened._repr_html_()
    assert opened[WEAK, "breakaway_risk"].standing == "at least"
    assert set(opened.to_pandas().query("measure == 'breakaway_risk' and headline")["standing"]) == {"at least"}


def test_no_requirement_is_met_by_weakness_and_allow_opts_out(run, capsys) -> None:
    require = ("check", str(run), "--require")
    assert status_of(*require, "breakaway_risk < 99%") == 1
    assert "the truth is at least that" in " ".join(capsys.readouterr().out.split())
    assert status_of(*require, "breakaway_risk.value >= 0") == 0
    assert (
        status_of(
            *require, "breakaway_risk < 99%", "--allow", "reach", "--allow", "stronger_attack", "--allow", "masking"
        )
        == 0
    )
    assert status_of(*require, "breakaway_risk < 99%", "--allow", "raech") == 2
    assert "did you mean 'reach'" in capsys.readouterr().err


@pytest.mark.slow
def test_strictly_a_failed_check_is_status_1_and_allowed_ones_are_recorded(tmp_path, capsys) -> None:
    words = ("audit", STRONG, "--data", "digits", "--profile", "quick", "--images", "40", "--attacked", "8", "--quiet")
    words += ("--measure", "breakaway_risk", "--set", "*.attack=pgd", "--set", "*.attack.steps=2")
    words += ("--set", "*.attack.step_size=0.0001")
    assert status_of(*words, "--out", str(tmp_path / "a")) == 0
    assert status_of(*words, "--out", str(tmp_path / "a"), "--strict") == 1
    assert "a check failed (steps too short); --allow reach accepts it" in capsys.readouterr().err
    allow = [word for name in ("reach", "stronger_attack", "masking", "large_radius") for word in ("--allow", name)]
    assert status_of(*words, "--out", str(tmp_path / "b"), "--strict", *allow) == 0
    record = json.loads((tmp_path / "b" / "record.json").read_text())
    assert record["plan"]["allow"] == ["reach", "stronger_attack", "masking", "large_radius"]
    (row,) = record["encoders"]
    assert row["measures"]["breakaway_risk"]["scores"]["2 steps"]["standing"] == "sound"


def test_what_is_void_is_compared_with_nothing(run, record, tmp_path) -> None:
    record["encoders"][1]["checks"]["collapse"]["status"] = "fail"
    record["encoders"][1] = as_json(settle(typed(record).encoders[1]))
    place = changed(run, record, tmp_path / "void")
    data = compare_runs([open_run(place)], fewest=1)
    for m in data["measures"].values():
        row = next(row for row in m["rows"] if row["encoder"] == STRONG)
        assert row["score"]["standing"] == "void"
        assert row["rank"] is None
        assert not row["best"]
        assert "one representation for all images" in row["why_not"]
    assert "void" in to_markdown(table_document(compare.compare_runs([open_run(place)], fewest=1)))
    assert status_of("check", place, "--require", "uniformity > -99") == 1
    assert status_of("check", place, "--require", "uniformity > -99", "--allow", "collapse") == 0


def test_what_flatters_may_lose_and_never_win() -> None:
    """A risk of at least 20 % is worse than a sound 5 %; one of at least 1 % is not better."""
    assert may_lose("at least", "lower")
    assert not may_win("at least", "lower")
    assert may_win("at least", "higher")
    assert not may_lose("at least", "higher")
    assert may_lose("at most", "higher")
    assert not may_win("at most", "higher")
    assert not may_win("void", "lower")
    assert not may_lose("void", "lower")
    assert [may_meet("at most", sign) for sign in ("<", "<=", ">", ">=", "==", "!=")] == [True, True, *[False] * 4]
    assert [may_meet("at least", sign) for sign in ("<", "<=", ">", ">=", "==", "!=")] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert not may_meet("void", ">")
    assert may_meet("sound", "==")


def test_the_strongest_reason_counts_and_allowing_it_leaves_the_next(record) -> None:
    changed = copy.deepcopy(record)
    changed["encoders"][0]["checks"]["frozen"]["status"] = "fail"
    first = allowing(typed(changed), []).encoders[0].measures["breakaway_risk"]
    assert first.headline_score.standing == "void"
    after = allowing(typed(changed), ["frozen"]).encoders[0].measures["breakaway_risk"]
    assert after.headline_score.standing == "at least"


@pytest.mark.slow
def test_one_event_has_one_number(tmp_path) -> None:
    """Three measures of one event in one ball: whatever they pursue, they stand on all that was found."""
    measures = [
        {"name": "nearest_neighbour_accuracy"}, {"name": "adversarial_robustness"},
        {"name": "certified_nearest_neighbour_accuracy"},
    ]  # fmt: skip
    shared, own = (
        run_audit(
            make_plan(AuditRequest(
                [STRONG], "digits", profile="quick", measures=measures, eps=0.15, images=60, attacked=20,
                settings=[
                    "*.attack=pgd", "*.attack.steps=8", "certified_nearest_neighbour_accuracy.certifier=interval"
                ],
                shared_searches=flag, examined=4,
            )),
            tmp_path / str(flag),
        )["encoders"][0]["measures"]
        for flag in (True, False)
    )  # fmt: skip

    def number(entry: dict, name: str, score: str) -> float:
        return entry[name]["scores"][score]["value"]

    found = [
        number(shared, "nearest_neighbour_accuracy", "worst found"),
        number(shared, "adversarial_robustness", "images that hold"),
        number(shared, "certified_nearest_neighbour_accuracy", "attack"),
    ]
    assert found[0] == found[1] == found[2]
    drift = number(shared, "nearest_neighbour_accuracy", "8 steps")
    assert found[0] < drift  # moving far is not the same as coming near another image
    assert number(own, "nearest_neighbour_accuracy", "8 steps") == drift  # the paper's number is what it was
    assert number(own, "certified_nearest_neighbour_accuracy", "attack") > found[0]
