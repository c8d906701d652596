"""Real records of every schema are read, reported, checked and compared, and stay as they were written."""

import json
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import holdfast
from holdfast.cli import app
from holdfast.comparison.leaderboard import leaderboard
from holdfast.runtime.errors import HoldfastError, UnreadableRecord
from holdfast.storage.filesystem import Folder
from holdfast.storage.migrations import SCHEMA, migrated
from holdfast.storage.record_file import parse_record, read_record, sealed

WRITTEN = Path(__file__).parent / "records"
"""For each schema the run folder of an audit by a version that wrote it, without its cache."""

SCHEMAS = range(1, SCHEMA + 1)
ENCODERS = ["zoo:digits-simclr", "zoo:digits-simclr-adv"]


@pytest.fixture(params=SCHEMAS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A run folder of each schema."""
    folder = tmp_path / f"schema-{request.param}"
    zipfile.ZipFile(WRITTEN / f"{folder.name}.zip").extractall(folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_is_a_record_of_every_schema() -> None:
    assert sorted(path.stem for path in WRITTEN.iterdir()) == [f"schema-{schema}" for schema in SCHEMAS]


def test_a_record_of_every_schema_is_read_as_todays(run: Path) -> None:
    before = files(run)
    written = json.loads(before["record.json"])
    assert f"schema-{written['schema']}" == run.name
    record = read_record(Folder(run))
    assert record["schema"] == SCHEMA
    for old, new in zip(written["encoders"], record["encoders"], strict=True):
        (old_score, new_score) = (row["measures"]["cosine_to_self"]["scores"]["3 steps"] for row in (old, new))
        assert {key: new_score[key] for key in ("value", "low", "high", "n")} == {
            key: old_score[key] for key in ("value", "low", "high", "n")
        }
        assert new_score["standing"] == "sound"
    assert files(run) == before, "reading writes nothing"


def test_a_record_of_every_schema_is_reported_checked_and_compared(run: Path, tmp_path: Path) -> None:
    before = files(run)
    opened = holdfast.open(run)
    assert opened[ENCODERS[0], "cosine_to_self"].value == pytest.approx(0.958, abs=1e-3)
    requirement = CliRunner().invoke(app, ["check", str(run), "--require", "cosine_to_self > 0.5", "--json"])
    assert requirement.exit_code == 0, requirement.output
    compared = holdfast.compare(opened)
    assert "digits-simclr" in str(compared)
    shown = leaderboard(str(tmp_path))
    assert [encoder["name"] for group in shown["groups"] for encoder in group["encoders"]] == ENCODERS
    assert files(run) == before, "whoever reads writes nothing"
    report = CliRunner().invoke(app, ["report", str(run)])
    assert report.exit_code == 0, report.output
    assert "Cosine to self" in (run / "report.html").read_text(encoding="utf-8")
    assert {name: data for name, data in files(run).items() if name != "report.html"} == before


def test_another_audit_does_not_write_over_an_older_record(run: Path) -> None:
    before = files(run)
    with pytest.raises(HoldfastError, match="holds another audit"):
        holdfast.audit(ENCODERS[0], "digits", images=24, attacked=6, out=run, quiet=True)
    assert {name: data for name, data in files(run).items() if name in before} == before


def first(**status: str) -> dict:
    """The record of schema 1, where checks of the first encoder ended otherwise."""
    with zipfile.ZipFile(WRITTEN / "schema-1.zip") as files:
        record = json.loads(files.read("record.json"))
    for check, value in status.items():
        record["encoders"][0]["checks"][check]["status"] = value
    return record


VOIDING = (
    "input_range", "frozen", "batch_independence", "collapse", "gradient_health", "steps_converged", "stronger_attack",
    "masking", "large_radius", "precision",
)  # fmt: skip


@pytest.mark.parametrize("check", [*VOIDING, "enough_images", "preprocessing"])
def test_a_number_of_schema_1_is_void_where_a_check_failed_that_it_may_depend_on(check: str) -> None:
    record = first()
    record["encoders"][0]["checks"].setdefault(check, dict(record["encoders"][0]["checks"]["frozen"]))["status"] = (
        "fail"
    )
    scores = [encoder["measures"]["cosine_to_self"]["scores"]["3 steps"] for encoder in migrated(record)["encoders"]]
    void = check in VOIDING
    assert [score["standing"] for score in scores] == ["void" if void else "sound", "sound"]
    assert scores[0]["because"] == ([check] if void else [])


def test_an_older_record_that_was_changed_is_refused() -> None:
    with pytest.raises(UnreadableRecord, match="damaged or changed since the audit wrote it"):
        parse_record(json.dumps(first(frozen="fail")).encode(), "here")


@pytest.mark.parametrize(
    "broken", [{"encoders": [{}]}, {"encoders": 3}, {"encoders": [{"checks": [], "measures": {}}]}]
)
def test_what_is_no_record_of_its_schema_is_refused(broken: dict) -> None:
    record = {**first(), **broken}
    with pytest.raises(UnreadableRecord, match="not of its schema 1"):
        parse_record(json.dumps(sealed(record)).encode(), "here")


@pytest.mark.parametrize("schema", [0, -1, True, "1", None, 1.0])
def test_a_schema_that_there_never_was_is_refused(schema: object) -> None:
    with pytest.raises(UnreadableRecord, match=f"expected a record of schema 1 to {SCHEMA}"):
        parse_record(json.dumps({**first(), "schema": schema}).encode(), "here")


def test_a_newer_record_asks_for_an_upgrade() -> None:
    with pytest.raises(UnreadableRecord, match="upgrade Holdfast: pip install --upgrade holdfast"):
        parse_record(json.dumps({"schema": SCHEMA + 1}).encode(), "here")
