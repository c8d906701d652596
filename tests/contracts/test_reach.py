"""No attack of any part, profile or recipe is too short for its ball, but where a paper's own step is asked for."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.auditing.plan_file import plan_from
from holdfast.auditing.profile import profile
from holdfast.auditing.profile_files import profile_names
from holdfast.config.overrides import apply_changes
from holdfast.core import Attack, Ball, Measure, registry
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.training.adversary import Adversary
from holdfast.workflows.reproduce import recipe
from holdfast.workflows.reproduce.run import _audit

BALLS: list[Ball] = [kind(radius) for kind in (Linf, L2) for radius in (0.001, 0.05, 0.3)]

PAPERS = {"paper"}
"""Profiles with a fixed step in pixels; the validity panel marks their numbers."""

SHORT = {
    *(
        f"unsupervised-table{n} {p} {audit}"
        for n in (2, 3, 5, 6, 7)
        for p in ("full", "small")
        for audit in ("near", "far")
    ),
    "unsupervised-table2 mnist near",
    *(f"rvcl-fig7 small {audit}" for audit in ("mnist", "cifar")),
    *(f"rvcl-table4-cifar10 small {audit}" for audit in ("neg16_test4", "neg24_test6", "neg24_test8")),
    *(f"rvcl-table4-mnist small {audit}" for audit in ("weak", "strong")),
}
"""Audits of recipes that write such a step: the paper's own, or one in proportion to it where ε is another."""


def searches(part: Any) -> Iterator[tuple[Attack, Ball]]:
    """Every attack among the fields of a part, of what it observes and of the parts in it, with the ball beside it."""
    if isinstance(part, (tuple, list)):
        for item in part:
            yield from searches(item)
    if isinstance(part, Measure):
        yield from searches(part.observations())
    if not dataclasses.is_dataclass(part):
        return
    fields = [getattr(part, field.name) for field in dataclasses.fields(part)]
    attacks = [one for value in fields for one in (value if isinstance(value, tuple) else (value,))]
    attacks = [one for one in attacks if isinstance(one, Attack)]
    attacks += [member for one in attacks if isinstance(one, Ensemble) for member in one.members]
    yield from ((attack, ball) for attack in attacks for ball in fields if isinstance(ball, Ball))
    for value in fields:
        yield from searches(value)


def short(part: Any) -> list[tuple[Attack, Ball]]:
    """Those that cannot cross their ball."""
    return [(attack, ball) for attack, ball in searches(part) if not attack.crosses(ball)]


def usual(kind: str, name: str) -> Any:
    """A part as its class has it; None where it asks for more."""
    cls = registry.find(kind, name)
    fields = dataclasses.fields(cls)
    needed = [f for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return None if needed else cls()


@pytest.mark.parametrize("kind", ["measures", "observations", "checks", "probes", "learners", "estimators", "failures"])
def test_what_a_part_has_by_itself_crosses_its_ball(kind: str) -> None:
    parts = [usual(kind, name) for name in registry.names(kind)]
    assert short(parts) == []
    count = len(list(searches(parts)))
    assert count > 30 if kind == "measures" else count > 4 if kind in ("observations", "checks") else True


def test_an_adversary_of_a_training_crosses_its_ball() -> None:
    assert short(Adversary()) == []
    assert Adversary().attack.crosses(L2(3.0))


@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_a_measure_by_its_name_crosses_every_ball(ball: Ball) -> None:
    for measure in apply_changes((), registry.names("measures"), ball):
        assert short(measure) == [], measure
        assert {where for _, where in searches(measure)} <= {ball}, measure


@pytest.mark.sweep(3)
@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_every_attack_of_a_profile_crosses_its_ball(ball: Ball) -> None:
    for name in profile_names():
        assert bool(short(profile(name, ball).measures)) == (name in PAPERS and ball.radius > 0.01), name


@pytest.mark.slow
def test_audits_of_recipes_whose_steps_are_short_are_listed() -> None:
    found = set()
    for name in recipe.names():
        for size in recipe.profiles(recipe.read_file(recipe.folder() / f"{name}.toml")):
            asked = recipe.read(name, size)
            specs = {key: one.spec or f"file:{key}.safetensors" for key, one in asked.inputs.items()}
            for key, table in asked.audits.items():
                plan = plan_from(_audit(table, specs, {}, "cpu", 0), name)
                found |= {f"{name} {size} {key}"} if short(plan.measures) else set()
    assert found == SHORT


@pytest.mark.sweep(3)
@pytest.mark.parametrize("ball", BALLS, ids=str)
def test_radii_are_searched_finely_enough_to_be_compared_with_the_ball(ball: Ball) -> None:
    for name in profile_names():
        for measure in profile(name, ball).measures:
            assert getattr(measure, "tolerance", 0) <= 0.05 * ball.radius, name
