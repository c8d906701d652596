"""audit --dry-run: what an audit will take, from shards that the audit goes on from."""

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from rich.console import Console
from test_command_line import refused, run

from holdfast.runtime.progress import Bars, short

SMALL = [
    "zoo:digits-simclr", "--data", "digits", "--profile", "hardening", "--images", "24", "--attacked", "8",
    "--batch-size", "8", "--set", "*.attack.steps=10",
]  # fmt: skip


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What bars were told: encoder, planned, done."""
    told: list[tuple[str, int, int]] = []
    begin, advance = Bars.begin, Bars.advance

    def beginning(self, encoder: str, passes: int, unit: str = "passes") -> None:
        told.append((encoder, passes, 0))
        begin(self, encoder, passes, unit)

    def advancing(self, passes: int) -> None:
        name, planned, done = told[-1]
        told[-1] = (name, planned, done + passes)
        advance(self, passes)

    monkeypatch.setattr(Bars, "begin", beginning)
    monkeypatch.setattr(Bars, "advance", advancing)
    return told


@pytest.mark.slow
def test_passes_are_those_of_the_record_and_of_the_bars(capsys, tmp_path: Path, heard) -> None:
    folder = ["--out", str(tmp_path / "run")]
    code, out, err = run(capsys, "audit", *SMALL, *folder, "--dry-run", "--calibrate", "0.5", "--json")
    assert (code, err) == (0, "")
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {"cache"}
    found = json.loads(out)
    code, out, _ = run(capsys, "audit", *SMALL, *folder, "--json")
    assert code == 0
    (entry,) = json.loads(out)["encoders"]
    # what is observed, and what checks ask by themselves
    spent = [entry["passes"], *(check["passes"] for check in entry["checks"].values() if check["passes"])]
    for key in ("forward", "backward"):
        assert found["passes"][key] == sum(each[key] for each in spent)
    assert heard == [("zoo:digits-simclr", found["passes"]["work"], found["passes"]["work"])]
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    code, out, _ = run(capsys, "audit", *SMALL, *folder, "--dry-run", "--calibrate", "0.5")
    assert code == 0
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == files
    shards = found["encoders"][0]["shards"]
    said = " ".join(out.split())
    assert f"What was computed, {shards} of {shards} shards, is kept" in said
    assert "\x1b[" not in out


def test_what_costs_passes_is_told_apart(capsys, tmp_path: Path) -> None:
    nowhere = ["--out", str(tmp_path / "run"), "--dry-run", "--calibrate", "0.5", "--json"]
    code, out, _ = run(capsys, "audit", *SMALL, *nowhere)
    assert code == 0
    (encoder,) = json.loads(out)["encoders"]
    assert sum(part["passes"]["work"] for part in encoder["parts"]) == encoder["passes"]["work"]
    assert sum(part["seconds"] for part in encoder["parts"]) == pytest.approx(encoder["seconds"]["expected"])
    attack = next(part for part in encoder["parts"] if part["title"].startswith("targeted l2"))
    assert (attack["images"], attack["passes"]["forward"], attack["passes"]["backward"]) == (8, 8 * 11, 8 * 10)
    assert "overlap_risk" in attack["serves"]
    assert all(part["low"] <= part["seconds"] <= part["high"] * 1.0001 for part in encoder["parts"])


def test_certificates_are_at_most(capsys, tmp_path: Path) -> None:
    few = ["--profile", "standard", "--images", "24", "--attacked", "8"]
    given = ["audit", "zoo:digits-simclr", "--data", "digits", *few, "--out", str(tmp_path / "run"), "--dry-run"]
    code, out, _ = run(capsys, *given, "--calibrate", "1")
    assert code == 0
    assert re.search("This command takes at (most|least) ", " ".join(out.split())), (
        "a busy machine may not time all of it"
    )
    assert "tracing the network" in out


def test_faults_are_said(capsys, tmp_path: Path) -> None:
    nowhere = ["--out", str(tmp_path / "run"), "--dry-run"]
    code, out, _ = run(capsys, "audit", "zoo:base_cifar", *SMALL, *nowhere, "--calibrate", "0.5")
    assert code == 1
    assert "zoo:base_cifar: " in out  # colour images are expected, these are grey
    assert "zoo:digits-simclr: " in out
    assert "above 0" in refused(capsys, "audit", *SMALL, *nowhere, "--calibrate", "0")
    missing = ["audit", "zoo:digits-simclr", "--data", str(tmp_path / "none"), *nowhere]
    assert "none" in refused(capsys, *missing)
    assert not list((tmp_path / "run").glob("*.json"))


def test_a_part_is_estimated_as_a_part(capsys, tmp_path: Path) -> None:
    given = ["audit", *SMALL, "--out", str(tmp_path / "run"), "--dry-run", "--calibrate", "5"]
    code, out, _ = run(capsys, *given, "--shard", "2/3")
    assert code == 0
    assert "part 2/3: 1 encoder" in " ".join(out.split())
    assert "shard: expected" in refused(capsys, *given, "--shard", "4/3")


@pytest.mark.parametrize(("unit", "said"), [("steps", True), ("passes", False)])
def test_bars_count_the_steps_of_a_training_and_tell_the_share_of_an_audit(unit: str, said: bool) -> None:
    shown = io.StringIO()
    with Bars(Console(file=shown, force_terminal=True, width=150)) as bars:
        bars.begin("encoder", 450_000, unit)
        bars.advance(12_345)
    assert (f"12.3k/450k {unit}" in shown.getvalue()) is said
    assert "3%" in shown.getvalue()


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0"), (950, "950"), (999.6, "1k"), (1000, "1k"), (1234, "1.23k"), (12_345, "12.3k"), (450_000, "450k"),
     (999_700, "1M"), (1_250_000, "1.25M"), (2e9, "2G")],
)  # fmt: skip
def test_counts_are_short(count: float, said: str) -> None:
    assert short(count) == said


def test_labels_that_cannot_be_read_end_it_where_a_measure_reads_them(capsys, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cls.tar", "w") as file:
        for number in range(8):
            picture = io.BytesIO()
            PIL.Image.effect_noise((8, 8), 60).save(picture, "PNG")
            for ending, content in (("png", picture.getvalue()), ("cls", "²".encode())):
                entry = tarfile.TarInfo(f"{number}.{ending}")
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))
    line = ("audit", "zoo:digits-simclr", "--data", str(tmp_path / "cls.tar"), "--out", str(tmp_path / "run"))
    dry = ("--images", "8", "--dry-run", "--calibrate", "0.001")
    assert ".cls, got '²'" in refused(capsys, *line, *dry, "--measure", "probe_accuracy")
    assert ".cls, got '²'" in refused(capsys, *line, *dry[:2], "--measure", "probe_accuracy")
    assert run(capsys, *line, *dry)[0] == 0


ONE = ["zoo:digits-simclr", "--measure", "cosine_to_self"]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("none", ""),
        ("1h", "Its budget of 1 h "),
        ("0.01s", "its first round, which is always made. That attacks 6 of 24 images"),
    ],
)
def test_a_budget_says_how_far_the_command_comes(capsys, tmp_path: Path, budget: str, said: str) -> None:
    asked = [
        "zoo:digits-simclr",
        "--data",
        "digits",
        "--measure",
        "cosine_to_self",
        "--images",
        "24",
        "--budget",
        budget,
    ]
    code, out, _ = run(capsys, "audit", *asked, "--out", str(tmp_path), "--dry-run", "--calibrate", "0.3")
    told = " ".join(out.split())
    assert code == 0
    assert told.startswith("This command takes ")  # the answer comes first
    assert ("ts budget" in told) == bool(said)
    assert ("All of it takes" in told) == (budget == "0.01s")
    assert re.search(
        r"It sends (at most )?[1-9][\d,]* images through the encoder, in batches of \d+: [1-9][\d,]* forward \(", told
    )
    assert said in told


def test_more_images_than_there_are_is_said(capsys, tmp_path: Path) -> None:
    np.savez(tmp_path / "few.npz", images=np.random.default_rng(0).random((20, 8, 8)).astype("float32"))
    asked = [
        "zoo:digits-simclr",
        "--data",
        str(tmp_path / "few.npz"),
        "--measure",
        "cosine_to_self",
        "--images",
        "50000",
    ]
    code, out, _ = run(capsys, "audit", *asked, "--out", str(tmp_path / "run"), "--dry-run", "--calibrate", "0.3")
    assert code == 0
    assert "50,000 images were asked for, and 20 are there" in " ".join(out.split())


def test_a_part_has_no_budget(capsys, tmp_path: Path) -> None:
    folder = ["--out", str(tmp_path / "run"), "--shard", "1/2", "--dry-run", "--calibrate", "0.3"]
    code, out, _ = run(capsys, "audit", *ONE, "--data", "digits", "--images", "24", *folder)
    assert code == 0
    assert "ts budget" not in out
