"""A record as evidence: the table of requirements holds together, and a row says what the record says."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import HoldfastError, registry
from holdfast.report.evidence import NO_COMPLIANCE, read_requirements, write_evidence
from json_records import typed
from report_fixture import NAMES, NO_TARGETS, make_run

EVASION = ["AISVS v1.0-C11.1.3", "AI Act Article 15(5)", "NIST AI 100-2 E2025 evasion"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return make_run(tmp_path_factory.mktemp("run"))


def _write(record: dict[str, Any], place: Path, encoder: str = NAMES[0]) -> str:
    write_evidence(typed(record), str(place), encoder)
    return place.read_text(encoding="utf-8")


def test_the_table_names_what_there_is() -> None:
    table = read_requirements()
    asked = [name for question in table.question for name in question.requirements]
    assert {name for question in table.question for name in question.measures} <= set(registry.names("measures"))
    assert {one.name for one in table.requirement} == set(asked)
    assert {one.document for one in table.requirement} == set(table.document)
    # Cells of a table in Markdown
    assert not any("|" in text for one in table.question for text in (one.asks, one.shows, one.hides))


def test_commands_of_the_table_exist() -> None:
    from typer.main import get_command

    from holdfast.cli import app

    group: Any = get_command(app)
    named = {name for question in read_requirements().question for name in question.commands}
    assert named
    assert named <= {f"holdfast {name}" for name in group.commands}


def test_a_row_holds_what_the_record_says(made: dict[str, Any], tmp_path: Path) -> None:
    data = json.loads(_write(made, tmp_path / "evidence.json"))
    own = made["encoders"][0]
    assert data["weights"] == own["fingerprint"]
    assert (data["seed"], data["images_fingerprint"]) == (made["plan"]["seed"], made["data"]["fingerprint"])
    assert data["started"] == made["run"]["started"]
    assert [row["part"] for row in data["tested"]] == [m["part"] for m in own["measures"].values()]
    for row, m in zip(data["tested"], own["measures"].values(), strict=True):
        assert {name: score["value"] for name, score in row["scores"].items()} == {
            name: score["value"] for name, score in m["scores"].items()
        }
    rows = {row["part"]["name"]: row for row in data["tested"]}
    assert rows["breakaway_risk"]["requirements"] == EVASION
    assert rows["relative_quantile"]["requirements"] == ["LLM09:2026 risk 7", *EVASION]
    assert NO_TARGETS in rows["adversarial_margin"]["failure"]
    assert {key: check["status"] for key, check in data["checks"].items()} == {
        key: check["status"] for key, check in own["checks"].items()
    }
    # Only what rows name, and its documents
    assert {one["name"] for one in data["requirements"]} == {
        name for row in data["tested"] for name in row["requirements"]
    }
    assert len(data["sources"]) == len({one["document"] for one in data["requirements"]})


def test_the_page_says_what_failed_and_what_it_is_not(made: dict[str, Any], tmp_path: Path) -> None:
    record = json.loads(json.dumps(made))
    own = record["encoders"][0]
    passing = [name for name, check in own["checks"].items() if check["status"] == "pass"][:2]
    own["checks"][passing[1]]["status"] = "warn"
    own["measures"]["breakaway_risk"]["scores"]["50 steps"]["checks"] = passing
    record["plan"]["allow"] = ["masking"]
    page = _write(record, tmp_path / "evidence.md")
    assert NO_COMPLIANCE in page
    assert "A failure of these was accepted, and takes nothing from the numbers: masking." in page
    assert own["fingerprint"] in page
    rows = [line for line in page.splitlines() if line.startswith(f"| {EVASION[0]}")]
    failed = next(row for row in rows if "Adversarial margin" in row)
    assert "nothing: " in failed
    assert NO_TARGETS in failed
    sound = next(row for row in rows if "Breakaway risk" in row)
    assert "attack=pgd" in sound
    assert "ball=linf(radius=0.1)" in sound
    assert "1 of 2 checks passed; 1 warning: " in sound


def test_a_record_of_no_requirement_says_so(made: dict[str, Any], tmp_path: Path) -> None:
    record = json.loads(json.dumps(made))
    record["comparison"] = {}
    for encoder in record["encoders"]:
        (one, *_) = encoder["measures"].values()
        one["part"]["name"] = "of_ones_own"
        encoder["measures"] = {"of_ones_own": one}
    page = _write(record, tmp_path / "evidence.md")
    assert "No measure of this record belongs to a requirement that Holdfast knows." in page
    assert "| none |" in page
    assert "Requirements" not in page


def test_evidence_that_cannot_be_written(made: dict[str, Any], tmp_path: Path) -> None:
    record = typed(made)
    broken = json.loads(json.dumps(made))
    broken["encoders"][0] |= {"error": "no weights", "measures": {}, "checks": {}}
    broken["comparison"] = {}
    for asked, arguments, says in (
        (record, ("evidence.txt", NAMES[0]), "expected a file that ends in .md or .json"),
        (record, ("evidence.md", None), "evidence: expected one encoder, and this record is of 3"),
        (record, ("evidence.md", "zoo:digits-simcl"), "did you mean"),
        (typed(broken), ("evidence.md", NAMES[0]), f"{NAMES[0]} could not be audited: no weights"),
    ):
        with pytest.raises(HoldfastError) as refused:
            write_evidence(asked, str(tmp_path / arguments[0]), arguments[1])
        assert says in str(refused.value)
    assert not any(tmp_path.iterdir())
