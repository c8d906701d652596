"""The gate: requirements on a record, as a pipeline runs them."""

import json
from pathlib import Path

import pytest
from test_command_line import refused, run, status_of

from holdfast.config.requirements import judge, parse
from holdfast.core import Score
from holdfast.storage.entry import as_json
from holdfast.storage.record import MeasureEntry
from json_records import check_entry, encoder_entry, measure_entry, small_record, typed
from report_fixture import write_record

TINY = ["--profile", "quick", "--images", "24", "--attacked", "8", "--set", "*.attack.steps=3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of one encoder."""
    place = tmp_path_factory.mktemp("gate") / "run"
    assert status_of("audit", "zoo:digits-simclr", "--data", "digits", "--out", str(place), *TINY) == 0
    return place


def score(value, low, high, note="") -> Score:
    return Score(value, low, high, 50, "exact", note=note, if_weak="at least")


def last(*numbers, **said) -> dict:
    return {"50 steps": as_json(score(*numbers, **said))}


def flawed(encoder: dict, measure: dict, standing: str, check: str, finding: str) -> None:
    encoder["checks"][check] = as_json(check_entry("fail", finding))
    for number in measure["scores"].values():
        number.update(standing=standing, because=[check])


def measure(headline: str, unit: str, **scores: Score) -> MeasureEntry:
    return measure_entry(headline=headline, unit=unit, scores=scores)


@pytest.fixture
def record() -> dict:
    """What two encoders have: a share, a radius with two scores, and names with dots, spaces and brackets."""
    risk = measure("50 steps", "share", **{"10 steps": score(0.01, 0.0, 0.02), "50 steps": score(0.04, 0.02, 0.06)})
    radius = measure("certificate", "pixels", attack=score(0.2, 0.1, 0.3), certificate=score(0.1, 0.08, 0.12))
    twin = measure("gamma 0.5", "share", **{"gamma 0.5": score(0.9, 0.8, 0.95)})
    names = {"breakaway_risk": risk, "certified_radius": radius, "kept[radius=0.1,norm=l2]": twin}
    checks = {"collapse": check_entry("pass", "fine"), "masking": check_entry("warn", "hm")}
    return as_json(small_record([encoder_entry(name, measures=names, checks=checks) for name in ("one", "two")]))


def met(record: dict, *texts: str, encoders=("one",)) -> list[bool]:
    return [finding.met for finding in judge(typed(record).encoders, texts, encoders)]


def test_the_end_that_must_hold_is_compared_where_no_field_is_given(record) -> None:
    assert met(record, "breakaway_risk < 0.05", "breakaway_risk.value < 0.05") == [False, True]
    assert met(record, "breakaway_risk <= 6 %", "breakaway_risk < 6 %") == [True, False]
    assert met(record, "certified_radius > 0.08", "certified_radius >= 0.08") == [False, True]
    (one,) = judge(typed(record).encoders, ["certified_radius > 0.09"], ["one"])
    # The value is 0.1 and the end 0.02 below it: half as far needs four times as many, and a tenth more
    assert one.found == 0.08
    assert one.reason == "is not > 0.09, though the value is; about 220 in place of 50 would show it"
    (two,) = judge(typed(record).encoders, ["certified_radius > 0.2"], ["one"])
    assert two.reason == "is not > 0.2"
    assert one.compared == "certified_radius, certificate, low end (the default for >)"


def test_scores_fields_and_numbers(record) -> None:
    assert met(record, "breakaway_risk.10 steps.high < 0.021", "breakaway_risk.10 steps < 2e-2") == [True, False]
    assert met(record, "certified_radius.attack >= 25/255", "certified_radius.attack >= 26/255") == [True, False]
    assert met(record, "kept[radius=0.1,norm=l2].gamma 0.5.low == 80 %", "kept[radius=0.1,norm=l2] > 80%") == [
        True,
        False,
    ]
    assert met(record, "breakaway_risk.n >= 50", "breakaway_risk.n != 50") == [True, False]
    assert met(record, "breakaway_risk.low==0.02") == [True]
    assert parse("a<b.value<=1").subject == "a<b.value"  # the last comparison counts


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e, risk: e.update(error="cannot be opened"), "not audited: cannot be opened"),
        (lambda e, risk: e["measures"].pop("breakaway_risk"), "not measured"),
        (lambda e, risk: risk.update(error="NaN", scores={}), "failed: NaN"),
        (lambda e, risk: risk.update(not_certified="not certified: max", scores={}), "not certified: max"),
        (lambda e, risk: risk["scores"].update(last(None, None, None, note="no pairs")), "undefined: no pairs"),
        (lambda e, risk: risk["scores"].update(last(0.0, None, None)), "no interval"),
        (
            lambda e, risk: flawed(e, risk, "void", "frozen", "moves"),
            "a check failed (answers change from pass to pass): moves",
        ),
        (
            lambda e, risk: flawed(e, risk, "at least", "masking", "gradients mislead"),
            "the truth is at least that: a check failed (misleading gradients): gradients mislead",
        ),
    ],
)
def test_nothing_is_met_by_what_is_not_there(record, change, reason) -> None:
    assert met(record, "breakaway_risk < 0.5", encoders=()) == [True, True]
    second = record["encoders"][1]
    change(second, second["measures"]["breakaway_risk"])
    one, two = judge(typed(record).encoders, ["breakaway_risk < 0.5"])
    assert (one.met, two.met, two.reason) == (True, False, reason)
    assert met(record, "breakaway_risk < 0.5") == [True]  # --encoder one


def test_a_bound_on_one_side_meets_what_weakness_could_not(record) -> None:
    """A risk that is at least 4 % is above 1 %, however weak the attack; that it is below 50 % nobody knows."""
    second = record["encoders"][1]
    flawed(second, second["measures"]["breakaway_risk"], "at least", "masking", "hm")
    texts = ("breakaway_risk > 1 %", "breakaway_risk > 5 %", "breakaway_risk < 50 %", "breakaway_risk.value != 0.5")
    assert met(record, *texts, encoders=("two",)) == [True, False, False, False]
    assert met(record, "breakaway_risk.n >= 50", encoders=("two",)) == [True]


def test_checks(record) -> None:
    record["encoders"][1]["checks"]["masking"]["status"] = "skip"
    asked = ["checks.collapse == pass", "checks.masking == pass", "checks.masking != fail", "checks.* != fail"]
    assert met(record, *asked, encoders=()) == [True, True, False, False, True, True, True, True]
    (one,) = judge(typed(record).encoders, ["checks.* == pass"], ["one"])
    assert (one.met, one.found, one.reason) == (False, "warn", "masking: warn, hm")
    del record["encoders"][1]["checks"]["masking"]
    assert met(record, "checks.masking != fail", encoders=["two"]) == [False]  # not examined is not passed
    record["encoders"][0]["checks"] = {}
    assert met(record, "checks.* != fail") == [False]


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("breakaway < 1", "did you mean 'breakaway_risk'"),
        ("breakaway_risk.5 steps < 1", "unknown score of breakaway_risk '5 steps'"),
        ("breakaway_risk.hihg < 1", "unknown score of breakaway_risk 'hihg'"),
        ("breakaway_risk < 5", "did you mean 5 %?"),
        ("breakaway_risk == 0", "add one of .value, .low, .high, .n"),
        ("breakaway_risk.n > 5 %", "expected a count"),
        ("breakaway_risk < five", "expected a number"),
        ("breakaway_risk < nan", "expected a number"),
        ("breakaway_risk < inf", "expected a number"),
        ("breakaway_risk < 4/0", "expected a number"),
        ("breakaway_risk <", "expected a number"),
        ("breakaway_risk", "expected MEASURE"),
        ("", "expected a value for --require"),
        ("checks.mask == pass", "did you mean 'masking'"),
        ("checks.masking == good", "unknown status"),
        ("checks.masking < pass", "expected == or !="),
    ],
)
def test_what_cannot_be_read_is_refused(folder, capsys, text, said) -> None:
    assert said in refused(capsys, "check", str(folder), "--require", text)


def test_status_and_table(folder, capsys) -> None:
    code, out, err = run(
        capsys, "check", str(folder), "--require", "breakaway_risk <= 100 %", "--require", "checks.frozen == pass"
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "passed"
    assert "✗" not in out
    code, out, _ = run(capsys, "check", str(folder), "--require", "breakaway_risk < 0")
    assert code == 1
    assert "✗ digits-simclr" in out
    assert "is not < 0" in out
    assert "\x1b[" not in out


def test_json_and_a_file_of_requirements(folder, capsys, tmp_path: Path) -> None:
    file = tmp_path / "gate.txt"
    file.write_text("# of the release\nbreakaway_risk.value >= 0  # always\n\nuniversal_quantile < 0\n")
    code, out, _ = run(capsys, "check", str(folder), "--require-file", str(file), "--json")
    found = json.loads(out)
    assert (code, found["met"]) == (1, False)
    assert [one["met"] for one in found["findings"]] == [True, False]
    record = json.loads((folder / "record.json").read_text())["encoders"][0]["measures"]["universal_quantile"]
    assert found["findings"][1]["found"] == record["scores"][record["headline"]]["high"]


def test_bad_input_is_one_line(folder, capsys, tmp_path: Path) -> None:
    assert "at least one requirement" in refused(capsys, "check", str(folder))
    assert "did you mean 'zoo:digits-simclr'" in refused(
        capsys, "check", str(folder), "--require", "overlap_risk < 1", "--encoder", "zoo:digits-simcl"
    )
    assert "record.json" in refused(capsys, "check", str(tmp_path), "--require", "overlap_risk < 1", status=3)
    assert "cannot read" in refused(capsys, "check", str(folder), "--require-file", str(tmp_path / "none"))
    (tmp_path / "empty").write_text("# nothing\n")
    assert "got none" in refused(capsys, "check", str(folder), "--require-file", str(tmp_path / "empty"))


def test_a_run_on_another_file_system(folder, capsys) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/gated/record.json", (folder / "record.json").read_bytes())
    assert run(capsys, "check", "memory://gated", "--require", "breakaway_risk >= 0")[0] == 0
    assert "memory://nothing" in refused(
        capsys, "check", "memory://nothing", "--require", "breakaway_risk >= 0", status=3
    )


@pytest.mark.parametrize("text", ["overlap_risk < 1", "checks.* == pass"])
def test_no_encoder_is_no_pass(record, capsys, tmp_path: Path, text: str) -> None:
    write_record(tmp_path, {**record, "encoders": []})
    assert "encoders is empty" in refused(capsys, "check", str(tmp_path), "--require", text, status=3)
