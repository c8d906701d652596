"""Plans: names of parts, settings, batch sizes, and what joins what."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

import holdfast
from holdfast.auditing import plan_file
from holdfast.auditing.plan import Plan, batch_size_for, merge, validity_panel
from holdfast.auditing.plan_file import make_plan, read_plan, refuse_idle_ball
from holdfast.auditing.profile import profile
from holdfast.auditing.profile_files import profile_names
from holdfast.auditing.record import slugs
from holdfast.auditing.request import AuditRequest
from holdfast.config.overrides import set_parameters
from holdfast.core import Check, HoldfastError, Measure, Passes, Search, Verdict, registry
from holdfast.core.naming import name_parts, title, titles
from holdfast.core.registry import register
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.checks.reach import Reach
from holdfast.parts.checks.smaller_change import SmallerChange
from holdfast.parts.checks.steps_converged import StepsConverged
from holdfast.parts.checks.stronger_attack import StrongerAttack
from holdfast.parts.checks.unexamined_search import UnexaminedSearch
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.measures.certified.certified_radius import CertifiedRadius
from holdfast.parts.measures.classifiers.robust_probe import RobustProbe
from holdfast.parts.measures.corruptions.corruption_drift import CorruptionDrift
from holdfast.parts.measures.corruptions.relative_drop import RelativeDrop
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.feature_space.uniformity import Uniformity
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.measures.neighbours.nearest_neighbour_accuracy import NearestNeighbourAccuracy
from holdfast.parts.measures.neighbours.overlap_risk import OverlapRisk
from holdfast.parts.measures.probabilistic.probabilistic_robustness import ProbabilisticRobustness
from holdfast.parts.measures.synbench.synbench import Synbench
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.adversarial_negatives import AdversarialNegatives
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.probes.linear import Linear
from holdfast.parts.probes.robust_linear import RobustLinear
from holdfast.parts.threats.gamma import Gamma
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.laplace import Laplace
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.patch import Patch
from holdfast.runtime.errors import BadValue, Conflict, UnknownName


def test_twins_are_named_by_what_differs() -> None:
    parts = (UniversalQuantile(), UniversalQuantile(ball=Linf(0.1)), OverlapRisk())
    assert list(name_parts(parts)) == [
        "universal_quantile[radius=0.05]",
        "universal_quantile[radius=0.1]",
        "overlap_risk",
    ]
    levels = [BreakawayRisk(ball=Linf(grey / 255)) for grey in (1, 8)]
    assert list(name_parts(levels)) == ["breakaway_risk[radius=1/255]", "breakaway_risk[radius=8/255]"]
    other = (BreakawayRisk(), BreakawayRisk(ball=L2(1.0), divergence="cosine"))
    assert list(name_parts(other))[1] == "breakaway_risk[ball=l2]"


def test_titles_are_for_people() -> None:
    assert title(NearestNeighbourAccuracy(), "nearest_neighbour_accuracy") == "Nearest-neighbour accuracy"
    assert title(Synbench(), "synbench") == "SynBench"
    assert title(OverlapRisk(), "overlap_risk[radius=0.1,divergence=l2]") == "Overlap risk (radius 0.1, divergence l2)"


def test_twins_have_titles_that_say_all_in_which_any_two_differ() -> None:
    two, eight = (BreakawayRisk(Pgd(steps=20), Linf(grey / 255)) for grey in (2, 8))
    said = titles(name_parts([two, eight, BreakawayRisk(Pgd(steps=100), L2(0.5)), BreakawayRisk(Pgd(200, restarts=3))]))
    assert list(said.values()) == [
        "Breakaway risk (steps 20, restarts 1, ball linf, radius 2/255)",
        "Breakaway risk (steps 20, restarts 1, ball linf, radius 8/255)",
        "Breakaway risk (steps 100, restarts 1, ball l2, radius 0.5)",
        "Breakaway risk (steps 200, restarts 3, ball linf, radius 0.05)",
    ]
    assert list(titles(name_parts([two, eight])).values()) == [
        "Breakaway risk (radius 2/255)", "Breakaway risk (radius 8/255)"
    ]  # fmt: skip
    assert list(titles(name_parts([two])).values()) == ["Breakaway risk"]
    attacks = (Pgd(steps=20), Square(steps=20))
    assert list(titles(name_parts([BreakawayRisk(attack) for attack in attacks])).values()) == [
        "Breakaway risk (attack pgd)", "Breakaway risk (attack square)"
    ]  # fmt: skip
    # an objective that compares as its measure does says so once
    others = [BreakawayRisk(divergence="cosine"), BreakawayRisk(divergence="l2")]
    assert list(titles(name_parts(others)).values()) == [
        "Breakaway risk (divergence cosine)", "Breakaway risk (divergence l2)"
    ]  # fmt: skip


def test_shapes_decide_the_batch_size() -> None:
    assert batch_size_for((1, 8, 8), "cpu") == 512
    assert batch_size_for((3, 32, 32), "cpu") == 64
    assert batch_size_for((3, 224, 224), "cpu") == 8
    assert batch_size_for((3, 224, 224), "cuda") == 64


def test_one_setting_changes_one_parameter() -> None:
    before = profile("quick").measures
    after = set_parameters(before, ["breakaway_risk.attack.steps=7", "universal_quantile.divergence=cosine"], Linf())
    changed = {name_parts(before)[name] != part for name, part in name_parts(after).items()}
    assert changed == {True, False}
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2


def test_a_part_is_replaced_by_name() -> None:
    before = (BreakawayRisk(Pgd(20)),)
    for replaced in ("breakaway_risk.attack=apgd", "breakaway_risk.attack.name=apgd"):
        (measure,) = set_parameters(before, [replaced, "breakaway_risk.attack.restarts=3"], Linf())
        assert measure == BreakawayRisk(attack=Apgd(50, restarts=3))


@pytest.mark.parametrize(
    "setting",
    [
        "breakaway_risk",
        "breakaway_risk=3",
        "breakaway_risk.attack.steps=2.5",
        "breakaway_risk.attack.steps=true",
        "breakaway_risk.nothing.steps=2",
        "breakaway_risk.attack.steps=0",
        "breakaway_risk.divergence=euclid",
        "breakaway_risk.attack=agpd",
        "breakaway_risk.attack=5",
        "breakaway_risk.attack.step_size=abc",
        'breakaway_risk.readouts=["a"]',
        "breakaway_risk.readouts=5.5",
        "breakaway_risk.ball.radius=[1]",
        'breakaway_risk.attack={"kind": "threats", "name": "linf"}',
        'breakaway_risk.attack={"kind": "attacks", "name": "ensemble", "members": [1]}',
        "breakaway_risk.objective=loss",
    ],
)
def test_bad_settings_are_refused(setting: str) -> None:
    with pytest.raises(HoldfastError):
        set_parameters((BreakawayRisk(),), [setting], Linf())


def test_the_panel_examines_each_search_that_numbers_rely_on_once() -> None:
    """Whatever the profile and the measure: no search is examined that none relies on, none is left out, none twice."""
    settings = ["*.ball.radius=0.2", "*.attack=apgd"]
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile="quick", settings=settings))
    drift = Search(Apgd(50), Linf(0.2), Untargeted())
    assert drift in [check.search for check in plan.checks if isinstance(check, StepsConverged)]
    for name in profile_names():
        plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile=name))
        needed = {search for measure in plan.measures for search in measure.searches}
        smallest = {search for search in needed if search.smallest}
        for kind, expected in (
            (Reach, needed - smallest),
            (StrongerAttack, needed - smallest),
            (SmallerChange, smallest),
        ):
            examined = [check.search for check in plan.checks if isinstance(check, kind)]
            assert len(examined) == len(expected)
            assert set(examined) == expected


def test_robust_accuracy_alone_is_judged_by_its_own_search() -> None:
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", measures=[{"name": "robust_accuracy"}], eps=2 / 255))
    (check,) = [check for check in plan.checks if isinstance(check, StrongerAttack)]
    assert check.ball == Linf(2 / 255)
    assert check.objective == Misclassified(Linear())


@dataclass(frozen=True)
class OwnSearch(Clean):
    """An observation of a user's own that follows gradients and does not say how."""

    @property
    def passes(self) -> Passes:
        return Passes(forward=2, backward=1)


@dataclass(frozen=True)
class OwnMeasure(UniversalQuantile):
    def observations(self):
        return (OwnSearch(),)


def test_a_search_that_nobody_tells_of_is_warned_of(own_parts_forgotten) -> None:
    register("measures")(OwnMeasure)
    (check,) = [one for one in validity_panel((OwnMeasure(),), 8, 8) if isinstance(one, UnexaminedSearch)]
    assert check.measures == ("own_measure",)
    assert not [one for one in validity_panel((UniversalQuantile(),), 8, 8) if isinstance(one, UnexaminedSearch)]


@dataclass(frozen=True)
class OwnCheck(Check):
    def observations(self):
        return ()

    def judge(self, subject):
        return Verdict("pass", "nothing was found", "Nothing was looked at.")


@dataclass(frozen=True)
class OwnSearchCheck(OwnCheck):
    @classmethod
    def checks_for(cls, audit):
        return (cls(),) if audit.searches else ()


def test_checks_of_ones_own_join_the_panel_where_they_say_so(own_parts_forgotten) -> None:
    register("checks")(OwnCheck)
    register("checks")(OwnSearchCheck)
    assert set(validity_panel((UniversalQuantile(),), 8, 8)) >= {OwnCheck(), OwnSearchCheck()}
    assert OwnCheck() in validity_panel((Uniformity(),), 8, 8)
    assert OwnSearchCheck() not in validity_panel((Uniformity(),), 8, 8)
    assert OwnCheck() not in validity_panel((Synbench(),), 8, 8)  # no image is read


def test_zero_images_are_not_the_default() -> None:
    with pytest.raises(BadValue, match="attacked"):
        make_plan(AuditRequest(["zoo:digits-simclr"], "digits", attacked=0))


@pytest.mark.parametrize(
    "line",
    [
        'images = "20"',
        "data = 3",
        'measures = ["breakaway_risk", 3]',
        'eps = "four"',
        "eps = [0.1]",
        'encoders = "zoo:x"',
        "seed = true",
    ],
)
def test_plan_files_with_wrong_types_are_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    lines = {"encoders": 'encoders = ["zoo:digits-simclr"]', "data": 'data = "digits"'}
    path.write_text("\n".join((lines | {line.split(" ")[0]: line}).values()))
    with pytest.raises(BadValue, match=line.split(" ")[0]):
        read_plan(path)


def test_names_of_files_never_collide() -> None:
    assert len(set(slugs(["a-2", "a", "a", "A", "a/2"]))) == 5


def test_joined_observations_serve_both() -> None:
    short, long = Attacked(Pgd(10, 0.01), first=4), Attacked(Pgd(30, 0.01), readouts=(5, 20), first=9)
    ((joined, readers),) = merge([("a", [short]), ("b", [long])]).items()
    assert isinstance(joined, Attacked)
    assert joined.readouts == (5, 10, 20)
    assert joined.first == 9
    assert joined.passes == Passes(21, 20)  # the steps after the last read-out are not made
    assert readers == ("a", "b")
    assert len(merge([("a", [Attacked(Pgd(10))]), ("b", [Attacked(Pgd(20))])])) == 2  # their step sizes differ


@pytest.mark.parametrize("name", profile_names())
@pytest.mark.parametrize("ball", [Linf(0.03), L2(0.7)])
def test_profiles_take_any_ball(name: str, ball) -> None:
    asked = [measure.ball for measure in profile(name, ball).measures if hasattr(measure, "ball")]
    assert asked or name in ("corruptions", "contrastive", "everyday", "feature_space", "synbench")
    if name == "patches":  # is about a ball of its own
        assert {type(each) for each in asked} == {Patch}
        return
    assert {type(each) for each in asked} <= {type(ball)}
    assert {each.radius for each in asked} <= {ball.radius, 2 * ball.radius}


def test_a_star_means_the_measures_that_have_the_parameter() -> None:
    both = (BreakawayRisk(), CertifiedRadius())
    changed = set_parameters(both, ["*.attack=apgd", "*.negatives=3"], Linf())
    assert changed == (BreakawayRisk(Apgd()), CertifiedRadius(negatives=3))
    with pytest.raises(UnknownName, match="no_such"):
        set_parameters(both, ["*.no_such=1"], Linf())


def test_probes_are_left_images_to_learn_from_unless_told_otherwise() -> None:
    def plan(**asked) -> Plan:
        return make_plan(AuditRequest(["zoo:digits-simclr"], "digits", **{"profile": "contrastive", **asked}))

    assert plan().count_attacked(600) == 300
    assert plan(train="digits?part=train").count_attacked(600) == 600
    assert plan(attacked=600).count_attacked(600) == 600
    assert plan(profile="corruptions").count_attacked(600) == 600  # reads no labels
    assert plan(profile="rvcl").count_attacked(1000) == 100  # leaves enough as it is


def test_what_is_true_or_not_is_said_in_words() -> None:
    assert title(RelativeDrop(), "relative_drop[consistent=False]") == "Relative drop (not consistent)"
    assert title(RelativeDrop(), "relative_drop[probe=knn,consistent=True]") == "Relative drop (probe knn, consistent)"


def test_twins_that_differ_in_lists_are_called_by_their_first_members() -> None:
    long = tuple(ImagenetC(name, 3) for name in ("fog", "snow", "frost"))
    twins = (CorruptionDrift((Gamma(0.5),)), CorruptionDrift(long), CorruptionDrift((*long[:2], ImagenetC("frost", 4))))
    assert list(name_parts(twins)) == [
        "corruption_drift[threats=gamma]",
        "corruption_drift[threats=imagenet_c+imagenet_c+1 more]",
        "corruption_drift[threats=imagenet_c+imagenet_c+1 more no. 2]",
    ]


def test_eps_is_the_radius_of_measures_that_state_none() -> None:
    given = [
        {"name": "breakaway_risk"},
        {"name": "overlap_risk", "ball": {"name": "l2", "radius": 1.0}},
        {"name": "probabilistic_robustness"},
        {"name": "uniformity"},
    ]
    plan = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", eps=0.2, measures=given))
    balls = [one.get("ball", one.get("noise", {}).get("ball")) for one in map(registry.spec, plan.measures)]
    assert [ball and (ball["name"], ball["radius"]) for ball in balls] == [
        ("linf", 0.2),
        ("l2", 1.0),
        ("linf", 0.2),
        None,
    ]


# --- measures by name and by table: the profile's, field by field -----------------------------------


def asked(profile: str, *measures, **more) -> tuple[Measure, ...]:
    return make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile=profile, measures=measures, **more)).measures


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("name", "ball"),
    [
        *((name, {}) for name in profile_names()),
        *(("quick", ball) for ball in ({"eps": 0.3}, {"norm": "l2", "eps": 0.001})),
    ],
    ids=str,
)
def test_a_name_and_a_bare_table_are_the_measure_of_the_profile(name: str, ball, monkeypatch) -> None:
    monkeypatch.setattr(plan_file, "validity_panel", lambda *_: ())  # measures are looked at, checks are not
    monkeypatch.setattr(plan_file, "open_profile", cache(plan_file.open_profile))
    whole = make_plan(AuditRequest(["zoo:digits-simclr"], "digits", profile=name, **ball)).measures
    for one in dict.fromkeys(map(registry.part_name, whole)):
        twins = tuple(measure for measure in whole if registry.part_name(measure) == one)
        assert asked(name, one, **ball) == asked(name, {"name": one}, **ball) == twins
        assert asked(name, one, {"name": one}, one, **ball) == twins


def test_a_table_changes_the_profiles_measure_field_by_field() -> None:
    assert asked("quick", {"name": "breakaway_risk", "attack": {"steps": 7}}, eps=0.15) == (
        BreakawayRisk(Pgd(7), Linf(0.15)),
    )
    table = {"name": "breakaway_risk", "attack": {"name": "pgd", "keep": "last"}, "divergence": "cosine"}
    assert asked("quick", table) == (BreakawayRisk(Pgd(20, keep="last"), Linf(0.1), divergence="cosine"),)
    assert asked("quick", {"name": "breakaway_risk", "attack": {"name": "apgd"}}) == (BreakawayRisk(Apgd(), Linf(0.1)),)
    assert asked("quick", {"name": "breakaway_risk", "ball": {"radius": 0.3}}, eps=0.1) == (
        BreakawayRisk(Pgd(20), Linf(0.3)),
    )
    changes = [{"name": "universal_quantile", "ball": {"radius": radius}} for radius in (0.1, 0.2)]
    assert asked("quick", *changes) == tuple(UniversalQuantile(Pgd(20), Linf(radius)) for radius in (0.1, 0.2))
    assert asked("quick", BreakawayRisk(Pgd(3), Linf(0.2))) == (BreakawayRisk(Pgd(3), Linf(0.2)),)


def test_twins_are_chosen_by_their_parts_and_changed_alike() -> None:
    pgd, wagner, strongest = asked("nppr", "adversarial_robustness")
    assert asked("nppr", {"name": "adversarial_robustness", "attack": {"name": "carlini_wagner"}}) == (wagner,)
    (five,) = asked("nppr", {"name": "adversarial_robustness", "attack": {"name": "pgd", "steps": 5}})
    assert five == replace(pgd, attack=Pgd(5))
    (square,) = asked("nppr", {"name": "adversarial_robustness", "attack": {"name": "square"}})
    assert square == replace(strongest, attack=Square())
    quantiles = asked("paper", {"name": "universal_quantile", "divergence": "linf"})
    assert [(one.ball, str(one.divergence)) for one in quantiles] == [(Linf(0.05), "linf"), (Linf(0.1), "linf")]
    assert len(asked("paper", "universal_quantile", settings=["*.ball.radius=0.1"])) == 2


def test_what_the_profile_lacks_begins_with_its_class_in_the_audits_ball() -> None:
    assert asked("feature_space", "breakaway_risk") == (BreakawayRisk(ball=Linf(0.1)),)
    for norm, ball in (("linf", Linf(0.2)), ("l2", L2(0.2))):
        assert asked("feature_space", "breakaway_risk", norm=norm, eps=0.2) == (BreakawayRisk(ball=ball),)
        (probe,) = asked("quick", {"name": "robust_probe", "robust": {"epochs": 3}}, norm=norm, eps=0.2)
        assert probe == RobustProbe(robust=RobustLinear(ball, epochs=3), ball=ball)


def test_a_part_of_another_name_stays_in_the_ball() -> None:
    noise = {"name": "probabilistic_robustness", "noise": {"name": "laplace"}}
    (by_table,) = asked("hardening", noise, eps=0.2)
    (by_setting,) = asked("hardening", "probabilistic_robustness", eps=0.2, settings=["*.noise=laplace"])
    assert by_table == by_setting == ProbabilisticRobustness(noise=Laplace(Linf(0.2)))
    (narrow,) = asked("hardening", noise | {"noise": {"name": "laplace", "ball": {"radius": 0.1}}}, eps=0.2)
    assert narrow == ProbabilisticRobustness(noise=Laplace(Linf(0.1)))
    made = {"kind": "observations", "name": "adversarial_negatives"}  # they lie where they lie, not where x' may be
    (against,) = asked("certify", {"name": "instance_accuracy", "negatives": made}, eps=0.1)
    assert against.negatives == AdversarialNegatives()
    assert against.ball == Linf(0.1)


@pytest.mark.parametrize(
    ("change", "refusal", "message"),
    [
        ({}, BadValue, "name"),
        ({"name": 3}, BadValue, "name"),
        ({"name": "breakaway"}, UnknownName, r"'breakaway_risk'\?"),
        ({"name": "masking", "kind": "checks"}, BadValue, "measures"),
        ({"name": "breakaway_risk", "attak": {}}, UnknownName, r"'attack'\?"),
        ({"name": "breakaway_risk", "attack": {"step": 3}}, UnknownName, r"'steps'\?"),
        ({"name": "breakaway_risk", "attack": {"name": "linf"}}, UnknownName, "linf"),
        ({"name": "breakaway_risk", "attack": {"name": 3}}, BadValue, "kind"),
        ({"name": "breakaway_risk", "attack": 3}, BadValue, "got 3"),
        ({"name": "breakaway_risk", "divergence": {"steps": 3}}, BadValue, "kind"),
    ],
)
def test_tables_that_change_what_is_not_there_are_refused(change, refusal: type[HoldfastError], message: str) -> None:
    with pytest.raises(refusal, match=message):
        asked("quick", change)


def test_plan_files_take_names_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    lines = 'encoders = ["zoo:digits-simclr"]\ndata = "digits"\nprofile = "quick"\neps = 0.15\n'
    path.write_text(lines + 'measures = ["universal_quantile", { name = "breakaway_risk" }]')
    by_name = read_plan(path)
    path.write_text(lines + '[[measures]]\nname = "universal_quantile"\n[[measures]]\nname = "breakaway_risk"')
    assert read_plan(path) == by_name
    assert by_name.measures == (UniversalQuantile(Pgd(20), Linf(0.15)), BreakawayRisk(Pgd(20), Linf(0.15)))


def test_a_setting_without_a_name_changes_all_parts_of_a_list_that_have_it() -> None:
    plan = make_plan(
        AuditRequest(["zoo:digits-simclr"], "digits", profile="corruptions", settings=["*.threats.severity=5"])
    )
    titles = [title for measure in plan.measures for title in getattr(measure, "corruptions", ())]
    assert {title for title in titles if title.startswith(("fog", "G4", "γ 5"))} == {"fog 5", "G4x4", "γ 5"}
    plan = make_plan(AuditRequest(["a"], "digits", profile="corruptions", settings=["*.threats.resolution=encoder"]))
    titles = [title for measure in plan.measures for title in getattr(measure, "corruptions", ())]
    assert all(title.endswith(", resized first") for title in titles)
    with pytest.raises(BadValue, match="kind"):
        make_plan(AuditRequest(["a"], "digits", profile="corruptions", settings=["*.threats.nothing=3"]))


@pytest.mark.parametrize(
    ("profile", "norm", "eps"), [("patches", "linf", None), ("everyday", None, 0.05), ("corruptions", "l2", 1.0)]
)
def test_a_ball_that_no_measure_of_a_profile_would_take_is_refused(profile: str, norm: str | None, eps) -> None:
    with pytest.raises(Conflict, match=f"in {profile}"):
        holdfast.audit("zoo:digits-simclr", "digits", profile=profile, norm=norm, eps=eps)


@pytest.mark.parametrize(
    ("profile", "norm", "eps"),
    [("quick", "l2", None), ("patches", "patch", None), ("patches", None, None), ("rvcl", None, 0.05)],
)
def test_a_ball_that_some_measure_takes_is_not(profile: str, norm: str | None, eps: float | None) -> None:
    refuse_idle_ball(AuditRequest((), profile=profile, norm=norm, eps=eps))
