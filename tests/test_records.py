"""Any record that is read can be shown, and any that is not whole is one clear line: for every command."""

import json
import math
import os
import shutil
import time
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import typer.testing
from torch import nn

from holdfast.auditing.plan import Plan
from holdfast.cli import app
from holdfast.comparison.leaderboard import leaderboard
from holdfast.core import Encoder
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.drift.cosine_to_self import CosineToSelf
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.report.html import render, write_report
from holdfast.report.leaderboard import render as render_leaderboard
from holdfast.runtime.errors import HoldfastError, UnreadableRecord
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import WRITTEN, Record
from holdfast.storage.record_file import RunFiles, read_record
from holdfast.storage.seal import SEAL, add_seal
from json_records import parse_record, run_audit, typed
from random_records import Draw, damaged
from view_fixture import dead_process, write_progress

COMMANDS = (
    ("report",), ("report", "--json"), ("check", "--require", "breakaway_risk < 1"),
    ("check", "--require", "checks.* == pass"),
)  # fmt: skip
SOUND = ("sound-a", "sound-b")
RUNNER = typer.testing.CliRunner()


def command(*arguments: str) -> int:
    """Run a command and return its status; nothing but a foreseen end may come of it."""
    result = RUNNER.invoke(app, list(arguments))
    if isinstance(result.exception, HoldfastError):
        return int(result.exception.status)
    assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
    return result.exit_code


def write(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "record.json").write_bytes(data)
    return folder


def show(folder: Path, seed: int) -> None:
    """Show a random record by every command, beside a sound one."""
    record = Draw(seed)(Record)
    read_json(record, Record)
    run = write(folder / "odd", json.dumps(add_seal(record)).encode())
    sound = folder / "sound"
    for arguments in COMMANDS:
        assert command(arguments[0], str(run), *arguments[1:]) in (0, 1, 2, 3), (seed, arguments)
    assert command("compare", str(run), str(sound), "--json") in (0, 1, 2, 3)
    data = leaderboard(str(folder))
    shown = {encoder.name for group in data.groups for encoder in group.encoders}
    assert set(SOUND) <= shown, seed  # the odd one hides no other
    assert SOUND[0] in render_leaderboard(data)


def refuse(folder: Path, record: dict, seed: int) -> int:
    """Show a damaged record by every command; return whether it was found out."""
    data = damaged(record, seed)
    run = write(folder / "odd", data)
    try:
        parse_record(data, "odd")
    except UnreadableRecord as error:
        lines = str(error).splitlines()
        assert len(lines) == 1, seed
        for arguments in COMMANDS:
            assert command(arguments[0], str(run), *arguments[1:]) == 3, (seed, arguments)
        assert command("compare", str(run), str(folder / "sound")) in (1, 3), seed
        assert [one.place for one in leaderboard(str(folder)).unreadable] == ["odd"], seed
        return 1
    record = read_record(Folder(run))
    assert "<html" in render(record, RunFiles(Folder(run), {})), seed  # what is wrong does not matter
    return 0


def audit(folder: Path) -> None:
    """Audit two small encoders."""
    encoders: dict[str, Encoder] = {}
    for name in SOUND:
        layers = nn.Flatten(), nn.Linear(64, 8)
        encoders[name] = Encoder(nn.Sequential(*layers), mean=0, std=1, name=name)
    measures = (BreakawayRisk(Pgd(3, 0.05)), CosineToSelf(Pgd(3, 0.05)))
    run_audit(Plan(SOUND, data="digits", measures=measures, images=20, attacked=10), folder, encoders=encoders)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records") / "sound"
    audit(folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path, sound: Path) -> Path:
    shutil.copytree(sound, tmp_path / "sound")
    return tmp_path


def test_some_random_records_are_shown_by_every_command(folder: Path) -> None:
    for seed in range(1):
        show(folder, seed)


@pytest.mark.slow
def test_random_records_are_shown_by_every_command(folder: Path) -> None:
    for seed in range(500):
        show(folder, seed)


def test_some_damaged_records_are_one_clear_line(folder: Path) -> None:
    record = Draw(0)(Record)
    assert sum(refuse(folder, record, seed) for seed in range(4)) >= 2


@pytest.mark.slow
def test_damaged_records_are_one_clear_line(folder: Path) -> None:
    assert sum(refuse(folder, Draw(seed // 50)(Record), seed) for seed in range(500)) > 300


def test_whatever_changes_in_a_sealed_record_is_found_out(folder: Path) -> None:
    record = add_seal(json.loads((folder / "sound" / "record.json").read_text()))
    laid_out = parse_record(json.dumps(record, indent=3).encode(), "x")
    assert typed(laid_out) == typed(record)  # however it is laid out
    record["run"]["seconds"] += 1
    with pytest.raises(UnreadableRecord, match="damaged"):
        parse_record(json.dumps(record).encode(), "x")


def break_off(entry: dict[str, Any], key: str) -> None:
    """Take an entry out of what holds it, wherever that is said by a dotted path."""
    *above, last = key.split(".")
    for name in above:
        entry = next(iter(entry.values())) if name == "*" else entry[name]
    del entry[last]


@pytest.mark.parametrize("entry", [
    *WRITTEN, *(f"measures.*.{name}" for name in ("scores", "headline", "table", "passes_alone", "seconds")),
    *(f"measures.*.scores.*.{name}" for name in ("n", "interval", "checks", "standing", "because", "if_weak")),
])  # fmt: skip
def test_what_a_file_does_not_say_is_not_filled_in(folder: Path, entry: str) -> None:
    record = json.loads((folder / "sound" / "record.json").read_text())
    del record[SEAL]
    parse_record(json.dumps(record).encode(), "x")
    break_off(record["encoders"][1], entry)
    with pytest.raises(UnreadableRecord) as refused:
        parse_record(json.dumps(record).encode(), "x")
    assert entry.rpartition(".")[2] in str(refused.value)


def test_maps_that_are_not_there_are_said_to_be_missing(folder: Path) -> None:
    record = json.loads((folder / "sound" / "record.json").read_text())
    del record[SEAL]
    record["encoders"][0]["attention"] = {"layer": "layer4"}
    with pytest.raises(UnreadableRecord) as refused:
        parse_record(json.dumps(record).encode(), "x")
    assert "attention: images is missing" in str(refused.value)


def test_names_of_files_that_are_no_text_can_be_written() -> None:
    odd = os.fsdecode(b"caf\xe9")
    assert as_json({odd: (odd, math.nan, -math.inf)}) == {odd: [odd, None, None]}


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x"), Decimal(1), date(2026, 1, 1), UUID(int=1)])
def test_what_would_be_written_as_a_text_of_no_meaning_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        as_json({"value": [value]})


@pytest.mark.parametrize("n", [-1, 2**63])
def test_no_score_is_of_fewer_images_than_none(folder: Path, n: int) -> None:
    record = json.loads((folder / "sound" / "record.json").read_text())
    del record[SEAL]
    scores = record["encoders"][0]["measures"]["breakaway_risk"]["scores"]
    next(iter(scores.values()))["n"] = n
    with pytest.raises(UnreadableRecord) as refused:
        parse_record(json.dumps(record).encode(), "x")
    assert f"got n = {n}" in str(refused.value)


@pytest.mark.parametrize("value", [1.5, 3.9, 0.9999999999999, 1e300])
def test_values_that_no_axis_can_tell_apart_are_drawn(folder: Path, value: float) -> None:
    record = json.loads((folder / "sound" / "record.json").read_text())
    for number, encoder in enumerate(record["encoders"]):
        for measure in encoder["measures"].values():
            for score in measure["scores"].values():
                score |= {"value": value * (1 + number * 1e-13), "low": value, "high": value * (1 + 1e-12)}
    (folder / "sound" / "record.json").write_text(json.dumps(add_seal(record)))
    html = write_report(folder / "sound").read_text(encoding="utf-8")
    assert 'class="undrawn"' not in html


def test_a_chart_that_fails_says_so_in_its_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.report import series

    before = write_report(folder / "sound").read_text(encoding="utf-8")
    monkeypatch.setattr("report_fixture.CHARTS", {})  # all are drawn again

    def fail(*_: object) -> None:
        raise ValueError("<math> domain error")

    monkeypatch.setattr("holdfast.report.charts.figure.svg", fail)
    monkeypatch.setattr(series, "trainings", fail)
    html = write_report(folder / "sound").read_text(encoding="utf-8")
    wanted = before.count('focusable="false">')
    assert html.count("this chart could not be drawn: ValueError: &lt;math&gt; domain error") == wanted > 0
    assert "checkpoints: this part could not be drawn" in html
    assert "Breakaway risk" in html


def test_a_folder_without_a_record_says_how_its_audit_stands(tmp_path: Path) -> None:
    def refuse(folder: Path) -> str:
        with pytest.raises(UnreadableRecord) as refused:
            read_record(Folder(folder))
        return str(refused.value)

    assert "no such file or folder" in refuse(tmp_path / "nowhere")
    write_progress(tmp_path / "running")
    assert "its audit is still at work" in refuse(tmp_path / "running")
    write_progress(tmp_path / "killed", process=dead_process(), written=time.time() - 30)
    assert "its audit has not come to one" in refuse(tmp_path / "killed")
