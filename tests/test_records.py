"""Any record that is read can be shown, and any that is not whole is one clear line: for every command."""

import json
import shutil
from pathlib import Path

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
from holdfast.storage.entry import read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.record import Record
from holdfast.storage.record_file import RunFiles, add_seal, read_record
from json_records import parse_record, run_audit, typed
from random_records import Draw, damaged

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
    with pytest.raises(UnreadableRecord, match="damaged or changed"):
        parse_record(json.dumps(record).encode(), "x")


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
