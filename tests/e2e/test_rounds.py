"""Audits in rounds: a first answer, more images, the same numbers as in one go, and nothing twice."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from msgspec import structs
from test_command_line import run as command_line
from torch import nn

import holdfast
from holdfast.auditing import rounds
from holdfast.auditing.plan import Plan
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.auditing.shards import cuts_of
from holdfast.auditing.until import Until, until_of
from holdfast.cli import common
from holdfast.core import Encoder, Score
from holdfast.report import html
from holdfast.report.rounds import explain_stop
from holdfast.runtime.errors import BadValue
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.seal import unbroken
from json_records import read_record, run_audit, run_rounds, typed
from report_fixture import make_run

SHORT = ["*.attack.steps=5", "breaking_radius.steps=10", "nearest_neighbour_accuracy.passes=10"]
SETTINGS = [word for setting in SHORT for word in ("--set", setting)]
FEW = {"images": 40, "attacked": 24, "examined": 4, "queries": 10}
PLAN = replace(make_plan(AuditRequest(["it"], "digits", settings=SHORT, **FEW)), budget=3600.0, batch_size=8)
"""The profile quick on few images, in few steps; its first round attacks 6 of them."""


class Clock:
    """A clock that goes on by a second whenever somebody looks at it."""

    def __init__(self, step: float = 1.0):
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rounds as there can be: each is expected to take longer than all before it."""
    monkeypatch.setattr(rounds._Rounds, "_predict_seconds", lambda *_: 1000.0)


def encoder() -> Encoder:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 6))
        return Encoder(network, mean=0.5, std=0.5, name="it")


def audit(plan: Plan, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the last record, and those of all rounds."""
    told: list[dict[str, Any]] = []
    return run_rounds(plan, folder, told.append, it=encoder()), told


def answers(record: dict[str, Any]) -> dict[str, Any]:
    """Return the scores, and the statuses of the checks, by name."""
    (entry,) = record["encoders"]
    scores = {(name, key): score for name, m in entry["measures"].items() for key, score in m["scores"].items()}
    return scores | {name: check["status"] for name, check in entry["checks"].items()}


def numbers(answers: dict[str, Any]) -> dict[Any, float]:
    """Return the values and the ends of the intervals of all scores that have them."""
    scores = {key: score for key, score in answers.items() if isinstance(score, dict)}
    ends = {(*key, end): score[end] for key, score in scores.items() for end in ("value", "low", "high", "n")}
    return {key: value for key, value in ends.items() if value is not None}


@pytest.mark.parametrize("batch_size", [1, 7, 8, 64])
def test_rounds_end_where_shards_do_and_begin_with_six(batch_size: int) -> None:
    cuts = cuts_of(100, batch_size)
    assert cuts[0] == 6 if batch_size != 8 else cuts[:2] == (6, 8)
    assert cuts[-1] == 100
    assert list(cuts) == sorted(set(cuts))
    assert not any(cut % 2 for cut in cuts)  # pairs
    assert set(cuts_of(50, batch_size)[:-1]) <= set(cuts)  # whatever the number of images is


def test_the_first_round_answers_in_a_sentence_and_each_leaves_a_valid_record(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    def told(record: dict[str, Any]) -> None:
        seen.append(read_record(Folder(tmp_path)))  # it stands in the folder, sealed
        assert unbroken(seen[-1])

    run_rounds(PLAN, tmp_path, told, it=encoder())
    first, *later = seen
    assert first["data"]["attacked"] == 6
    assert list(first["encoders"][0]["measures"]) == ["breaking_radius"]
    assert first["encoders"][0]["checks"]
    assert first["run"]["rounds"]["answers_only"]
    for before, after in zip(seen, later, strict=False):
        assert before["data"]["attacked"] <= after["data"]["attacked"]
        assert len(after["encoders"][0]["measures"]) == len(PLAN.measures)
    assert later[-1]["data"]["attacked"] == 24
    assert read_record(Folder(tmp_path))["run"]["rounds"]["ended"] == "complete"


@pytest.mark.parametrize("images", [*(pytest.param(count, marks=pytest.mark.slow) for count in (6, 8)), 24])
def test_a_record_of_rounds_is_that_of_as_many_images_in_one_go(images: int, tmp_path: Path, many_rounds) -> None:
    plan = replace(PLAN, budget=None, until=Until(images=images))
    record, told = audit(plan, tmp_path / "rounds")
    assert [round["data"]["attacked"] for round in told][-1] == images
    whole = replace(PLAN, budget=None, attacked=images)
    expected = answers(run_audit(whole, tmp_path / "whole", encoders={"it": encoder()}))
    assert numbers(answers(record)) == pytest.approx(numbers(expected), rel=1e-4, abs=1e-5)  # batches round differently
    tables = {name: pq.read_table(tmp_path / "rounds" / name) for name in record["files"] if name.endswith(".parquet")}
    assert tables
    for name, table in tables.items():
        whole_table = pq.read_table(tmp_path / "whole" / name)
        assert table.column_names == whole_table.column_names
        for column in table.column_names[1:]:
            rows = whole_table[column].to_numpy()
            assert table[column].to_numpy() == pytest.approx(rows, rel=1e-4, abs=1e-5, nan_ok=True), (name, column)


def test_rounds_compute_nothing_twice(tmp_path: Path, many_rounds: None) -> None:
    it = encoder()
    told: list[Any] = []
    record = run_rounds(PLAN, tmp_path / "rounds", told.append, it=it)
    assert len(told) > 3
    again = encoder()
    run_audit(replace(PLAN, budget=None), tmp_path / "whole", encoders={"it": again})
    # the checks that the encoder does not change, and what it remembers by now, look again in every round
    checks = record["encoders"][0]["checks"]
    looks = sum(checks[name]["passes"]["forward"] for name in ("frozen", "remembers"))
    assert it.passes.forward - again.passes.forward == looks * (len(told) - 1)
    assert it.passes.backward == again.passes.backward


def test_a_spent_budget_leaves_the_first_answer_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    record, told = audit(replace(PLAN, budget=1e-6), tmp_path)
    assert len(told) == 1
    assert record["run"]["rounds"]["ended"] == "budget"
    assert record["run"]["rounds"]["answers_only"]
    assert re.search(r"the same command with --budget \d+[sm] goes on from here", explain_stop(typed(record)))
    assert "longer than the budget of 0.0 s" in explain_stop(typed(record))
    spent = record["run"]["seconds"]

    again, told = audit(replace(PLAN, budget=1e-6), tmp_path)  # the same again: nothing new
    assert answers(again) == answers(record)
    assert again["run"]["resumed_shards"] > 0
    assert "a further round would not end within" in explain_stop(typed(again))  # it made no first round

    more, told = audit(PLAN, tmp_path)
    assert more["run"]["rounds"]["before"] >= spent
    assert more["run"]["rounds"]["number"] > 1
    assert more["run"]["rounds"]["ended"] == "complete"
    assert explain_stop(typed(more)) == ""
    assert answers(more) == answers(audit(PLAN, tmp_path.with_name("fresh"))[0])


def test_no_round_begins_that_is_not_expected_to_end_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(rounds.time, "perf_counter", clock)
    monkeypatch.setattr(rounds, "AT_ONCE", 0.0)
    whole, told = audit(replace(PLAN, budget=1e9), tmp_path / "whole")
    times = [round["run"]["seconds"] for round in told]
    assert len(times) > 2
    budget = times[-2] + 0.3 * (times[-1] - times[-2])  # the clock counts looks, which are no measure of passes
    clock.now = 0.0
    record, told = audit(replace(PLAN, budget=budget), tmp_path / "half")
    assert record["run"]["rounds"]["ended"] == "budget"
    assert record["data"]["attacked"] < whole["data"]["attacked"]

    # The same command again has its budget to itself, not what earlier ones left of it
    assert "the budget; the same command goes on from here" in explain_stop(typed(record))
    clock.now = 0.0
    again, _ = audit(replace(PLAN, budget=0.9 * record["run"]["seconds"]), tmp_path / "half")
    assert again["data"]["attacked"] > record["data"]["attacked"]
    assert again["run"]["rounds"]["before"] >= record["run"]["seconds"]


@pytest.mark.parametrize(
    ("profile", "measure"),
    [
        pytest.param("feature_space", {"name": "few_shot_accuracy"}, marks=pytest.mark.slow),
        ("robust_probing", {"name": "robust_probe", "robust": {"epochs": 2}}),
    ],
)
def test_what_is_learned_does_not_change_from_round_to_round(
    profile: str, measure: dict[str, Any], tmp_path: Path, many_rounds: None
) -> None:
    few = {"images": 300, "attacked": 16, "budget": "1h", "batch_size": 8}
    plan = replace(make_plan(AuditRequest(["it"], "digits", profile=profile, measures=[measure], **few)), checks=())
    it, again, told = encoder(), encoder(), list[Any]()
    record = run_rounds(plan, tmp_path / "rounds", told.append, it=it)
    assert record["failures"] == []
    assert len(told) > 1
    whole = run_audit(replace(plan, budget=None), tmp_path / "whole", encoders={"it": again})
    assert numbers(answers(record)) == pytest.approx(numbers(answers(whole)), rel=1e-4, abs=1e-5)
    assert it.passes.backward == again.passes.backward  # learned once


@pytest.mark.slow
def test_an_interrupt_ends_with_what_is_there(tmp_path: Path) -> None:
    def told(record: dict[str, Any]) -> None:
        if not record["run"]["rounds"]["answers_only"]:
            raise KeyboardInterrupt

    record = run_rounds(PLAN, tmp_path, told, it=encoder())
    assert record["run"]["rounds"]["ended"] == "interrupted"
    assert read_record(Folder(tmp_path)) == record
    assert "the same command goes on from here" in explain_stop(typed(record))
    more, _ = audit(PLAN, tmp_path)
    assert more["run"]["rounds"]["ended"] == "complete"


def test_an_interrupt_before_the_first_answer_is_an_interrupt(tmp_path: Path) -> None:
    class Interrupts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_audit(PLAN, tmp_path, encoders={"it": Encoder(Interrupts(), mean=0, std=1, name="it")})


def test_a_precision_ends_an_audit_and_its_intervals_hold_at_every_round(tmp_path: Path) -> None:
    wide = {"until": until_of("breaking_radius ± 95%"), "budget": None}
    record, _ = audit(replace(PLAN, **wide), tmp_path / "wide")
    assert record["run"]["rounds"]["ended"] == "until"
    score = record["encoders"][0]["measures"]["breaking_radius"]["scores"]["median"]
    assert score["interval"].endswith(", at every round")
    assert (score["high"] - score["low"]) / 2 <= 0.95 * score["value"]
    # wider than that of one look at as many images
    plain, _ = audit(replace(PLAN, until=Until(images=record["data"]["attacked"])), tmp_path / "plain")
    usual = plain["encoders"][0]["measures"]["breaking_radius"]["scores"]["median"]
    assert score["value"] == usual["value"]
    assert not usual["interval"].endswith(", at every round")
    share, plainly = (r["encoders"][0]["measures"]["breakaway_risk"]["scores"].popitem()[1] for r in (record, plain))
    assert share["high"] - share["low"] > plainly["high"] - plainly["low"]


@pytest.mark.slow
def test_a_precision_that_is_not_reached_takes_all_images(tmp_path: Path) -> None:
    record, _ = audit(replace(PLAN, budget=None, until=until_of("breakaway_risk ± 1e-9")), tmp_path)
    assert record["run"]["rounds"]["ended"] == "complete"
    assert record["data"]["attacked"] == 24


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("24 images", Until(images=24)),
        ("breaking_radius ± 10%", Until(measure="breaking_radius", width=0.1, relative=True)),
        ("breaking_radius+-0.01", Until(measure="breaking_radius", width=0.01)),
        ("a +/- 5 %", Until(measure="a", width=0.05, relative=True)),
    ],
)
def test_an_aim_is_read_and_written(text: str, until: Until) -> None:
    assert until_of(text) == until
    assert until_of(str(until)) == until


def test_a_void_number_keeps_no_audit_going(tmp_path: Path) -> None:
    until = until_of("universal_quantile ± 10%")
    sound, wide = Score(1.0, 0.95, 1.05, 9, "", if_weak="at most"), Score(1.0, 0.5, 1.5, 9, "", if_weak="at most")
    made = typed(make_run(tmp_path, encoders=1))
    (encoder,) = made.encoders
    measure = encoder.measures["universal_quantile"]

    def record(*scores: Score) -> Record:
        """Return a record of so many encoders, each with one score."""
        encoders = [
            structs.replace(
                encoder,
                name=str(number),
                measures={"universal_quantile": structs.replace(measure, headline="median", scores={"median": score})},
            )
            for number, score in enumerate(scores)
        ]
        return structs.replace(made, encoders=encoders, comparison={})

    assert until.is_met(record(sound))
    assert not until.is_met(record(sound, wide))
    assert until.is_met(record(sound, replace(wide, standing="void")))
    assert not until.is_met(record(replace(sound, standing="void")))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "soon"), "budget: expected a time such as 90s, 30m or 1h30m, got 'soon'"),
        (("--budget", "0s"), "budget: expected seconds above 0, got 0"),
        (("--until", "10%"), "until: expected '24 images'"),
        (("--until", "breaking_radius ± 0"), "until: expected '24 images'"),
        (("--until", "breaking_radios ± 10%"), "did you mean 'breaking_radius'?"),
        (("--until", "0 images"), "expected"),
        (("--until", "25 images"), "until: expected an even number, for images are attacked in pairs, got 25 images"),
        (("--shard", "1/2", "--budget", "2m"), "leave out --budget and --until"),
    ],
)
def test_a_wrong_budget_or_aim_is_refused(arguments: tuple[str, ...], words: str, tmp_path: Path, capsys) -> None:
    status, _, stderr = command_line(
        capsys,
        "audit",
        "zoo:digits-simclr",
        "--data",
        "digits",
        "--images",
        "24",
        "--out",
        str(tmp_path / "run"),
        *arguments,
    )
    assert status == 2
    assert words in stderr
    assert not (tmp_path / "run" / "record.json").exists()


def test_the_command_tells_each_round_and_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = (
        "audit",
        "zoo:digits-simclr",
        "--data",
        "digits",
        "--images",
        "24",
        "--attacked",
        "12",
        "--out",
        str(tmp_path),
        *SETTINGS,
    )
    status, stdout, stderr = command_line(capsys, *few, "--budget", "0.01s")
    assert status == 0
    assert "6 of 12 images attacked" in stderr
    assert stderr.count("are taken for another one") == 1  # later rounds tell numbers
    assert re.search(r"the same command with --budget \d+[sm] goes on from here", " ".join(stdout.split()))
    assert "6 attacked so far" in stdout
    assert (tmp_path / "report.html").exists()
    status, stdout, _ = command_line(capsys, *few, "--budget", "none")
    assert status == 0
    assert "12 attacked" in stdout


@pytest.mark.slow
def test_python_takes_a_budget_and_an_aim() -> None:
    few = {"images": 24, "attacked": 12, "settings": SHORT, "batch_size": 8, "quiet": True}
    record = holdfast.audit(encoder(), "digits", until="8 images", **few)
    assert record.data["data"]["attacked"] == 8
    with pytest.raises(BadValue, match="2 minutes"):
        holdfast.audit(encoder(), "digits", images=24, budget="2 minutes", quiet=True)


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize(("every", "drawn"), [(0.0, 2), (600.0, 1)])
def test_reports_of_rounds_are_not_drawn_faster_than_anybody_reads(every, drawn, tmp_path, capsys, monkeypatch) -> None:
    folders = []
    monkeypatch.setattr(common, "REPORT_EVERY", every)
    monkeypatch.setattr(html, "publish", lambda folder: folders.append(folder) or str(folder))
    audit = ["audit", "zoo:digits-simclr", "--data", "digits", "--images", "24", "--attacked", "12", *SETTINGS]
    status, _, stderr = command_line(capsys, *audit, "--out", str(tmp_path))
    assert status == 0
    assert stderr.count("images attacked") == 2
    assert len(folders) == drawn
