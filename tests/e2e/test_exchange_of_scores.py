"""Scores for others: MTEB's results, a section of a model card as the Hugging Face Hub reads it, evidence."""

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from test_command_line import status_of

import holdfast
from holdfast.comparison.mteb_results import write_mteb_results
from holdfast.comparison.records import Run, open_run
from holdfast.report.model_card import model_card
from holdfast.runtime.errors import Ambiguous, BadValue, Missing, UnknownName
from holdfast.runtime.exit_status import ExitStatus
from holdfast.storage.entry import as_json
from json_records import typed

pydantic = pytest.importorskip("pydantic")
hub = pytest.importorskip("huggingface_hub")

ENCODERS = ["zoo:digits-simclr-adv", "zoo:digits-supervised?label=somebody/supervised"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("audit")
    holdfast.audit(
        ENCODERS,
        "digits",
        measures=["universal_quantile[attack.steps=3]", "uniformity", "breaking_radius[steps=20]"],
        images=40,
        attacked=8,
        out=place,
        quiet=True,
        budget="none",
    )
    return place


class TaskResult(pydantic.BaseModel):
    """`mteb.results.TaskResult` of MTEB 2.26, its fields and what it validates."""

    dataset_revision: str
    task_name: str
    mteb_version: str | None
    scores: dict[str, list[dict[str, Any]]]
    evaluation_time: float | None
    kg_co2_emissions: float | None = None
    date: datetime.datetime | None = None

    @pydantic.field_validator("scores")
    @classmethod
    def complete(cls, scores: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        for subset in (subset for split in scores.values() for subset in split):
            assert isinstance(subset["main_score"], float)
            assert isinstance(subset["hf_subset"], str)
            assert subset["languages"] == ["zxx-Zxxx"]  # no linguistic content; without any, MTEB averages nothing
        return scores


def test_mteb_reads_every_sound_headline(folder: Path, tmp_path: Path) -> None:
    assert status_of("report", str(folder), "--mteb", str(tmp_path / "mteb")) == 0
    record = json.loads((folder / "record.json").read_text())
    places = sorted((tmp_path / "mteb" / "results").glob("*/*/holdfast_*.json"))
    assert {place.parts[-3] for place in places} == {"holdfast__zoo-digits-simclr-adv", "somebody__supervised"}
    seen = 0
    for encoder in record["encoders"]:
        (meta,) = (tmp_path / "mteb" / "results").glob(f"*/{encoder['fingerprint']}/model_meta.json")
        about = json.loads(meta.read_text())
        assert about["revision"] == encoder["fingerprint"]
        assert about["name"].replace("/", "__") == meta.parts[-3]
        for name, m in encoder["measures"].items():
            score = m["scores"][m["headline"]]
            place = meta.parent / f"holdfast_{name}.json"
            assert place.exists() == (score["standing"] == "sound")
            if not place.exists():
                continue
            seen += 1
            result = TaskResult.model_validate_json(place.read_text(encoding="utf-8"))
            (subset,) = result.scores["test"]
            assert result.dataset_revision == record["data"]["fingerprint"]
            assert [subset[key] for key in ("value", "low", "high")] == [score[key] for key in ("value", "low", "high")]
            # more is better for MTEB
            way = {"value": score["value"], "1 - value": 1 - score["value"], "-value": -score["value"]}
            assert subset["main_score"] == way[subset["main_score_is"]]
            assert (subset["main_score_is"] == "value") == (m["better"] == "higher")
    assert seen == len(places) > 2


def _of(folder: Path, **changes: Any) -> Run:
    """Return the run with every score changed."""
    run = open_run(str(folder))
    record = as_json(run.record)
    for encoder in record["encoders"]:
        for m in encoder["measures"].values():
            m["scores"] = {name: score | changes for name, score in m["scores"].items()}
    return replace(run, record=typed(record))


@pytest.mark.parametrize("changes", [{"standing": "at least"}, {"standing": "void"}, {"value": None}])
def test_what_is_no_number_is_left_out(changes: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    run = _of(folder, **changes)
    with pytest.raises(Missing):
        write_mteb_results(run, str(tmp_path / "mteb"))
    assert not (tmp_path / "mteb").exists()
    card = model_card(structs.replace(run.record, encoders=run.record.encoders[:1]))
    assert hub.ModelCard(card).data.eval_results is None
    if "standing" in changes:  # the table says what is left of it
        assert changes["standing"] in card


def test_the_hub_reads_the_card(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "README.md"
    record = holdfast.open(folder)
    written = record.model_card(place, encoder="somebody/supervised")
    assert [Path(path).name for path in written] == ["README.md", "README-curve.svg"]
    card = hub.ModelCard.load(place)
    assert "](README-curve.svg)" in card.text
    assert (tmp_path / "README-curve.svg").read_text().startswith("<?xml")
    (own,) = (e for e in record.data["encoders"] if e["name"] == "somebody/supervised")
    results = {result.metric_type: result for result in card.data.eval_results}
    assert card.data.model_name == "somebody/supervised"
    for name, m in own["measures"].items():
        score = m["scores"][m["headline"]]
        assert (name in results) == (score["standing"] == "sound")
        if name in results:
            metric = results[name]
            assert (metric.metric_value, metric.metric_name) == (score["value"], m["title"])
            assert (metric.metric_args["low"], metric.metric_args["high"]) == (score["low"], score["high"])
            assert metric.dataset_revision == record.data["data"]["fingerprint"]
        assert m["title"] in card.text
    assert "**What to distrust**" in card.text


def test_evidence_of_an_audit_says_what_it_rests_on(folder: Path, tmp_path: Path, capsys) -> None:
    name, place = "somebody/supervised", tmp_path / "evidence.md"
    assert status_of("report", str(folder), "--evidence", str(place), "--encoder", name) == 0
    assert place.name in capsys.readouterr().out
    (own,) = (e for e in open_run(str(folder)).record.encoders if e.name == name)
    page, titles = place.read_text(encoding="utf-8"), [m.title for m in own.measures.values()]
    rows = {title: next(line for line in page.splitlines() if f"| {title}: " in line) for title in titles}
    assert own.fingerprint
    assert own.fingerprint in page
    assert "steps=3" in rows["Universal quantile"]
    assert "linf(radius=0.1)" in rows["Universal quantile"]
    assert "AISVS v1.0-C11.1.3" in rows["Breaking radius"]
    assert "| none |" in rows["Uniformity"]
    # Each row counts the checks of its own numbers
    assert all("checks passed" in row for row in rows.values())
    assert all(f"| {check.status} |" in page for check in own.checks.values())


def test_cards_that_cannot_be_written(folder: Path, tmp_path: Path, capsys) -> None:
    record = holdfast.open(folder)
    with pytest.raises(Ambiguous, match="--encoder"):
        record.model_card(tmp_path / "card.md")
    with pytest.raises(UnknownName, match=r"'somebody/supervised'\?"):
        record.model_card(tmp_path / "card.md", encoder="somebody/supervisd")
    with pytest.raises(BadValue, match=r"card\.txt"):
        record.model_card(tmp_path / "card.txt")
    assert status_of("report", str(folder), "--encoder", "somebody/supervised") == ExitStatus.USAGE
    assert "expected --model-card as well, or --evidence" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
