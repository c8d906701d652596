"""Profiles: TOML files that lie over each other, in any ball; one of your own is read like Holdfast's."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.auditing.plan_file import make_plan, read_plan
from holdfast.auditing.profile import profile
from holdfast.auditing.profile_files import profile_names
from holdfast.auditing.request import AuditRequest
from holdfast.core import HoldfastError, registry
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.checks.collapse import Collapse
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.classifiers.impersonation_rate import ImpersonationRate
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.probabilistic.worst_noise_robustness import WorstNoiseRobustness
from holdfast.parts.threats.imagenet_c import CORRUPTIONS
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.report import profile_page
from holdfast.runtime.errors import BadValue, Missing, UnknownName

OWN = """
description = "mine"
images = 40
attacked = 20
measures = ["universal_quantile", { name = "breakaway_risk", each = { "attack.steps" = [3, 5] } }]
[defaults]
attack = { name = "pgd", steps = 7 }
"""


def own(folder: Path, text: str = OWN) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)


def of(name: str, kind: type, ball=None) -> list:
    return [measure for measure in profile(name, ball or Linf(0.05)).measures if isinstance(measure, kind)]


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_can_be_asked(name: str) -> None:
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile=name))
    assert plan.profile == name
    assert profile(name).description


@pytest.mark.parametrize("name", profile_names())
def test_the_page_that_is_written_is_that_of_the_plan(name: str) -> None:
    assert profile_page.read(name) == profile_page.work_out(name), "type make surface, or python tests/profile_pages.py"


@pytest.mark.usefixtures("own_parts_forgotten")
def test_parts_of_ones_own_count_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = profile_page.profile_page("quick")
    monkeypatch.setattr(profile_page, "WRITTEN", Path("nowhere"))
    with pytest.raises(FileNotFoundError):
        profile_page.profile_page("quick")

    @registry.register("checks")
    @dataclass(frozen=True)
    class Twice(Collapse):
        """A check twice."""

    assert profile_page.profile_page("quick").checks == page.checks + 1


def test_values_follow_the_ball() -> None:
    for radius, tolerance in ((0.05, 1e-4), (0.03, 0.03 / 500), (0.5, 1e-4)):
        (asked,) = of("certify", CertifiedRadius, L2(radius))
        assert (asked.ball, asked.tolerance) == (L2(radius), pytest.approx(tolerance, rel=1e-12))
    assert of("downstream", ImpersonationRate, L2(0.7)) == [ImpersonationRate(ball=L2(1.4))]


def test_a_profile_lies_over_the_one_that_it_is_like() -> None:
    learned = of("nppr", WorstNoiseRobustness)
    noise = WorstMixture(components=7, side=4, groups="labels", loss="softplus", structure="label")
    assert learned[1] == WorstNoiseRobustness(Misclassified(), learner=noise)
    assert [one.learner.structure for one in learned] == ["independent", "label", "input", "joint"]
    assert [type(one) for one in profile("nppr").measures] == [type(one) for one in profile("probabilistic").measures]
    (drift,) = of("corruptions", CorruptionDrift)
    assert [threat.corruption for threat in drift.threats[6:]] == [*CORRUPTIONS]


def test_a_profile_of_your_own(tmp_path: Path) -> None:
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile=own(tmp_path), eps=0.2))
    ball = Linf(0.2)
    assert plan.measures == (
        UniversalQuantile(Pgd(7), ball), BreakawayRisk(Pgd(3), ball), BreakawayRisk(Pgd(5), ball)
    )  # fmt: skip
    assert (plan.profile, plan.images, plan.attacked) == ("mine", 40, 20)
    (tmp_path / "plan.toml").write_text(
        'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nprofile = "mine.toml"\neps = 0.2'
    )
    assert read_plan(tmp_path / "plan.toml") == plan
    like = 'like = "mine.toml"\nimages = 30\ndefaults = { attack = "apgd" }\nmeasures = ["universal_quantile"]'
    (tmp_path / "like.toml").write_text(like)
    assert profile(str(tmp_path / "like.toml"), Linf(0.3)).measures == (UniversalQuantile(Apgd(), Linf(0.3)),)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", Missing, "description"),
        (OWN + "atack = 1", UnknownName, r".attack.\?"),
        ("nosuch = 1", UnknownName, "nosuch"),
        ("imagse = 1", UnknownName, r"'images'\?"),
        ("images = 'x'", BadValue, "images"),
        ("like = 'nosuch'", UnknownName, "nosuch"),
        ("like = 'mine.toml'", BadValue, "like"),
        (OWN.replace("breakaway", "breakway"), UnknownName, "breakway_risk"),
        (OWN.replace("steps = 7", "step = 7"), UnknownName, r"'steps'\?"),
        (OWN.replace("7 }", "{ eps = 0 } }"), BadValue, "above 0"),
        (OWN.replace("[3, 5]", "3"), BadValue, "each"),
    ],
)  # fmt: skip
def test_what_no_profile_says(text: str, kind: type[HoldfastError], message: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=message):
        profile(own(tmp_path, text))


def test_profiles_measure_what_the_page_of_choices_says_they_do() -> None:
    page = (Path(__file__).parents[1] / "docs/choose.md").read_text(encoding="utf-8")
    tried = 0
    for row in re.findall(r"^\|.*$", page, re.MULTILINE):
        linked = {anchor.replace("-", "_") for anchor in re.findall(r"measures/\w+\.md#([\w-]+)", row)}
        wanted = linked & set(registry.names("measures"))  # others are parts of pages
        if profiles := re.findall(r"--profile (\w+)", row):
            found = {registry.part_name(part) for name in profiles for part in profile(name).measures}
            assert wanted <= found, row
            tried += len(wanted)
    assert tried > 20
