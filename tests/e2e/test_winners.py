"""No winner that is none: who looks untrained is never best or first, nor is anybody from too few images."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.auditing.plan_file import make_plan
from holdfast.auditing.request import AuditRequest
from holdfast.comparison.records import open_run
from holdfast.report.verdict import winners
from json_records import compare_runs, run_audit

RANDOM = "zoo:digits-simclr?weights=random&seed=1&label=random"
ENCODERS = (RANDOM, "zoo:digits-simclr?label=plain", "zoo:digits-simclr-adv?label=hardened")
MEASURES = ("breaking_radius[steps=10,certified=0]", "breakaway_risk[attack.steps=3]")


def audit(
    folder: Path,
    images: int,
    attacked: int,
    *allow: str,
    encoders: tuple[str, ...] = ENCODERS,
    measures: tuple[str, ...] = MEASURES,
) -> dict[str, Any]:
    asked = AuditRequest(
        encoders,
        "digits",
        measures=measures,
        images=images,
        attacked=attacked,
        examined=2,
        queries=10,
        allow=allow,
        batch_size=24,
    )
    return run_audit(make_plan(asked), folder, overwrite=True)  # what is stored there is used again


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("winners") / "run"
    return folder, audit(folder, 200, 50)


def test_who_looks_untrained_is_neither_best_nor_first(run: tuple[Path, dict[str, Any]]) -> None:
    folder, record = run
    values = {e["name"]: e["measures"]["breakaway_risk"]["scores"]["3 steps"]["value"] for e in record["encoders"]}
    assert min(values, key=lambda name: values[name]) == "random"  # its numbers are the best ones
    assert {compared["best"] for compared in record["comparison"].values()} == {"hardened", None}
    told = " ".join(str(holdfast.open(folder)).split())
    assert told.startswith("hardened is the most robust.")
    assert "random is not ranked: looks untrained" in told


def test_a_comparison_does_not_rank_it(run: tuple[Path, dict[str, Any]]) -> None:
    rows = compare_runs([open_run(str(run[0]))])["measures"]["breaking_radius"]["rows"]
    assert [(row["encoder"], row["rank"], row["best"]) for row in rows] == [
        ("hardened", [1, 1], True), ("plain", [2, 2], False), ("random", None, False),
    ]  # fmt: skip
    told = str(holdfast.compare(run[0]))
    assert "random: not ranked: looks untrained" in " ".join(told.split())


def test_a_gate_warns_of_it(run: tuple[Path, dict[str, Any]]) -> None:
    found = holdfast.check(run[0], require="breakaway_risk < 50 %")
    assert found.passed
    assert "random looks untrained: the weights of" in " ".join(str(found).split())
    assert "looks untrained" not in str(holdfast.check(run[0], require="breakaway_risk < 50 %", encoders="plain"))


@pytest.mark.slow
def test_few_images_name_nobody_unless_they_may(run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder = shutil.copytree(run[0], tmp_path / "few")
    few = audit(folder, 200, 48)
    assert few["comparison"]["breaking_radius"]["best"] is None
    told = " ".join(str(holdfast.open(folder)).split())
    assert told.startswith("No encoder is called best: the check enough images warns. 48 images attacked in")
    assert " * " not in told
    allowed = audit(folder, 200, 48, "enough_images")
    assert allowed["comparison"]["breaking_radius"]["best"] == "hardened"


@pytest.mark.slow
def test_two_of_which_one_looks_untrained_are_not_said_to_be_level(
    run: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder = shutil.copytree(run[0], tmp_path / "two")
    audit(folder, 200, 50, encoders=ENCODERS[:2], measures=MEASURES[:1])
    record = holdfast.open(folder)
    told = " ".join(str(record).split())
    assert told.startswith("Fewer than two encoders can be ranked. random is not ranked: looks untrained (the weights")
    sentences = [sentence.text for sentence in winners(record.run.record)]
    assert sentences == ["Fewer than two encoders can be ranked: see what the checks call the others."]
