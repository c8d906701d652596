"""Robust accuracy and impersonations of the digit encoders, in a whole audit with its pictures and its report."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from holdfast.auditing.plan import Plan
from holdfast.core import Measure
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.measures.classifiers.impersonation_rate import ImpersonationRate
from holdfast.parts.measures.classifiers.robust_accuracy import RobustAccuracy
from holdfast.parts.objectives.class_margin import ClassMargin
from holdfast.parts.objectives.cross_entropy import CrossEntropy
from holdfast.parts.objectives.dlr import Dlr
from holdfast.parts.threats.linf import Linf
from holdfast.report.html import write_report
from json_records import run_audit

ENCODERS = ("zoo:digits-supervised", "zoo:digits-simclr", "zoo:digits-simclr-adv")
MEASURES: tuple[Measure, ...] = (
    RobustAccuracy(ball=Linf(0.1), attacks=(Pgd(20),), objectives=(CrossEntropy(),)),
    RobustAccuracy(
        ball=Linf(0.1),
        attacks=(Apgd(30), Apgd(30), MinimumNorm(30), Square(60)),
        objectives=(CrossEntropy(), Dlr(), ClassMargin(), ClassMargin()),
    ),
    ImpersonationRate(classes=(4, 9), attack=Pgd(50), ball=Linf(0.2)),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("downstream")
    return folder, run_audit(Plan(ENCODERS, "digits", MEASURES, images=300, attacked=100), folder)


def values(record: dict, name: Callable[[str], bool]) -> list[dict[str, float]]:
    """The scores of one measure, for each encoder."""
    found = []
    for encoder in record["encoders"]:
        (key,) = filter(name, encoder["measures"])
        found.append({said: score["value"] for said, score in encoder["measures"][key]["scores"].items()})
    return found


def test_the_ensemble_finds_at_least_what_pgd_does(run: tuple[Path, dict]) -> None:
    _, record = run
    assert record["failures"] == []
    alone = values(record, lambda name: "attacks=pgd" in name)
    whole = values(record, lambda name: "attacks=apgd" in name)
    for pgd, ensemble in zip(alone, whole, strict=True):
        assert 0.9 < pgd["no attack"] == ensemble["no attack"]
        assert ensemble["after all"] <= pgd["after pgd, cross_entropy"] < 0.9 * pgd["no attack"]
        steps = list(ensemble.values())
        assert steps == sorted(steps, reverse=True)
    supervised, simclr, hardened = (ensemble["after all"] for ensemble in whole)
    assert hardened > max(supervised, simclr) + 0.1


def test_impersonation_rises_with_steps_and_is_rarer_for_the_hardened_encoder(run: tuple[Path, dict]) -> None:
    rates = values(run[1], lambda name: name == "impersonation_rate")
    for rate in rates:
        curve = [rate[f"{steps} steps"] for steps in (3, 10, 30, 50)]
        assert all(later > earlier - 0.05 for earlier, later in pairwise(curve))  # it is not what the attack climbs
        assert curve[-1] > curve[0]
        assert rate["50 steps"] == pytest.approx((rate["4 as 9, 50 steps"] + rate["9 as 4, 50 steps"]) / 2)
    supervised, simclr, hardened = (rate["50 steps"] for rate in rates)
    assert hardened < 0.5 * min(supervised, simclr)


def test_the_gallery_shows_what_the_table_says(run: tuple[Path, dict]) -> None:
    folder, record = run
    for encoder in record["encoders"]:
        (found,) = encoder["impersonations"]
        assert found["classes"] == [4, 9]
        fours, nines = found["sides"]
        assert len(fours) == len(nines) == 6
        assert {entry["said"] for entry in [*fours, *nines]} <= set(range(10))
        for entry in [*fours, *nines]:
            clean, attacked = (np.asarray(PIL.Image.open(folder / entry[kind])) / 255 for kind in ("clean", "attacked"))
            assert 0.1 < np.abs(clean - attacked).max() <= 0.2 + 1 / 255
    said = [[entry["said"] for side in e["impersonations"][0]["sides"] for entry in side] for e in record["encoders"]]
    changed = [sum(k not in (4, 9) or (k == 9) == (i < 6) for i, k in enumerate(row)) for row in said]
    assert changed[0] > 0
    assert changed[2] < changed[1]


def test_the_report_shows_them(run: tuple[Path, dict]) -> None:
    folder, record = run
    page = write_report(folder).read_text(encoding="utf-8")
    section = page.partition('<h3 id="impersonations">')[2].partition("</details>")[0]
    assert section.count("<article") == 3
    assert section.count("data:image/png") == 3 * 4 * 6
    assert 'href="#pictures"' in page
    first = record["encoders"][0]["impersonations"][0]["sides"][0]
    assert section.count(f"{first[0]['id']}, of class 4") >= 1
    words = re.search(r"(\d+) of these 12 images are taken for the other class", section)
    assert words
    sides = record["encoders"][0]["impersonations"][0]["sides"]
    taken = sum(e["said"] == 9 for e in sides[0]) + sum(e["said"] == 4 for e in sides[1])
    assert int(words[1]) == taken
    (folder / first[0]["attacked"]).rename(folder / "away.png")
    try:
        page = write_report(folder).read_text(encoding="utf-8")
        assert page.count(first[0]["attacked"]) >= 1  # named as missing, and the others are there
    finally:
        (folder / "away.png").rename(folder / first[0]["attacked"])


def test_a_class_that_no_image_has_is_named(tmp_path: Path) -> None:
    plan = Plan(ENCODERS[:1], "digits", (ImpersonationRate(classes=(4, 12)),), images=100, attacked=40)
    record = run_audit(plan, tmp_path)
    assert any("got none of class 12 among 100" in failure for failure in record["failures"])
    assert record["encoders"][0]["impersonations"] == []
