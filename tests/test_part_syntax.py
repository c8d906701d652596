"""Measures and settings in one line: `key=value` and NAME[key=value,...], in every place where they are written."""

import pytest

from holdfast.auditing.plan_file import make_plan, plan_from
from holdfast.auditing.profile import profile
from holdfast.auditing.profile_files import profile_names
from holdfast.auditing.request import AuditRequest
from holdfast.config.overrides import apply_changes, holds
from holdfast.config.part_syntax import part_table, setting
from holdfast.core import HoldfastError, registry
from holdfast.core.naming import name_parts
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.measures.drift.universal_quantile import UniversalQuantile
from holdfast.parts.measures.neighbours.breakaway_risk import BreakawayRisk
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Ambiguous, BadValue, UnknownName
from holdfast.training.recipe_file import make_recipe


def asked(*measures, **run) -> tuple:
    return make_plan(AuditRequest(["zoo:digits-simclr"], "digits", measures=measures, **{"eps": 0.1, **run})).measures


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("x=1", {"x": 1}),
        (" a.b = 4/255 ", {"a": {"b": 4 / 255}}),
        ("x=apgd", {"x": "apgd"}),
        ('x="a,b]"', {"x": "a,b]"}),
        ("x=[1,2.5, l2]", {"x": [1, 2.5, "l2"]}),
        ("x=[[1,2],[3]]", {"x": [[1, 2], [3]]}),
        ("x={name=pgd,steps=5}", {"x": {"name": "pgd", "steps": 5}}),
        ('x={ name = "pgd", a.b = [1, {c=d}] }', {"x": {"name": "pgd", "a": {"b": [1, {"c": "d"}]}}}),
        ('x={"name": "pgd"}', {"x": {"name": "pgd"}}),
        ("x=pgd[steps=5,y=linf[radius=1]]", {"x": {"name": "pgd", "steps": 5, "y": {"name": "linf", "radius": 1}}}),
        ("x=[pgd[steps=5],apgd]", {"x": [{"name": "pgd", "steps": 5}, "apgd"]}),
        ("x=True", {"x": True}),
        ("x=None", {"x": None}),
        ("x=digits?size=8", {"x": "digits?size=8"}),
        ("x=photos-{00..10}.tar", {"x": "photos-{00..10}.tar"}),
    ],
)  # fmt: skip
def test_settings_write_every_value(text: str, table: dict) -> None:
    assert setting(text) == table
    assert part_table(f"it[{text}]") == {"name": "it", **table}


def test_a_part_and_its_fields_join_in_any_order() -> None:
    together = {"name": "it", "attack": {"name": "apgd", "steps": 5}}
    assert part_table("it[attack=apgd,attack.steps=5]") == part_table("it[attack.steps=5,attack=apgd]") == together


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("breakaway_risk[attack.steps=5", BadValue, "] is missing"),
        ("breakaway_risk[attack={steps=5]", BadValue, "closes nothing|is missing"),
        ("breakaway_risk]", BadValue, "closes nothing"),
        ("breakaway_risk[]", BadValue, "key=value is missing"),
        ("breakaway_risk[attack.steps=5,]", BadValue, "key=value is missing"),
        ("breakaway_risk[attack.steps]", BadValue, "is not a key=value"),
        ("breakaway_risk[=5]", BadValue, "is not a key=value"),
        ("breakaway_risk[attack..steps=5]", BadValue, "is not a key=value"),
        ("breakaway_risk[attack.steps=]", BadValue, "a value is missing"),
        ("breakaway_risk[attack.steps=5,attack.steps=6]", BadValue, "written twice"),
        ("breakaway_risk[attack.steps=5]x", BadValue, "nothing after"),
        ("[attack.steps=5]", BadValue, "after a name"),
        ("breakaway_risk[name=overlap_risk]", BadValue, "before the bracket"),
        ("breakaway_risk[x=" + "[" * 3000 + "]" * 3000 + "]", BadValue, "nested more than"),
        ("breakaway_rsk[attack.steps=5]", UnknownName, r"'breakaway_risk'\?"),
        ("breakaway_risk[atack.steps=5]", UnknownName, r"'attack'\?"),
        ("breakaway_risk[attack.stps=5]", UnknownName, r"'steps'\?"),
        ("breakaway_risk[step=5]", UnknownName, r"'attack\.steps'\?"),
        ("breakaway_risk[attack_steps=5]", UnknownName, r"'attack\.steps'\?"),
        ("breakaway_risk[ball=rotation]", BadValue, "rotation"),
        ("breakaway_risk[bal=5]", UnknownName, r"'ball'\?"),
        ("my_measure", UnknownName, r"my_measure.*--parts"),
        ("breakaway_risk[attack.steps=2.5]", BadValue, r"pgd\.steps"),
        ("breakaway_risk[radius=nan]", BadValue, r"linf\.radius"),
        ("breakaway_risk[radius=4/0]", BadValue, r"linf\.radius"),
        ("breakaway_risk[attack=agpd]", UnknownName, r"'apgd'\?"),
        ("synbench[seed=1]", UnknownName, "seed"),
        ("", UnknownName, "measure ''"),
    ],
)
def test_what_is_not_of_the_grammar_is_one_line(text: str, kind: type[HoldfastError], why: str) -> None:
    with pytest.raises(kind, match=why) as refused:
        asked(text)
    assert len(str(refused.value).splitlines()) == 1


def test_the_end_of_a_key_stands_for_it_where_it_is_the_only_one() -> None:
    (measure,) = asked("breakaway_risk[steps=7,attack=apgd,radius=0.3]")
    assert measure == BreakawayRisk(Apgd(7), Linf(0.3))
    with pytest.raises(Ambiguous, match="radius"):
        asked("robust_probe[radius=0.2]")


def test_a_text_a_table_and_settings_say_the_same_in_every_place() -> None:
    text, expected = "breakaway_risk[attack.steps=7,ball={name=l2,radius=2}]", (BreakawayRisk(Pgd(7), L2(2.0)),)
    table = {"name": "breakaway_risk", "attack": {"steps": 7}, "ball": {"name": "l2", "radius": 2}}
    assert asked(text) == asked(table) == expected
    settings = ["breakaway_risk.attack.steps=7", "breakaway_risk.ball={name=l2,radius=2}"]
    assert asked("breakaway_risk", settings=settings) == expected
    values = {"encoders": ["zoo:digits-simclr"], "data": "digits", "measures": [text]}
    assert plan_from(values, "plan.toml").measures == expected


def test_profiles_of_ones_own_take_them(tmp_path) -> None:
    (tmp_path / "mine.toml").write_text(
        'description = "mine"\nimages = 20\nattacked = 10\nmeasures = ["breakaway_risk[steps=7]"]\n'
        '[defaults]\nattack = { name = "pgd", keep = "last" }\n'
    )
    (measure,) = profile(str(tmp_path / "mine.toml")).measures
    assert measure.attack == Pgd(7, keep="last")


def test_what_a_record_calls_a_measure_asks_for_it() -> None:
    """All names of all profiles that have twins, and those of twins that a user writes."""
    for name in profile_names():
        usual = profile(name, Linf(0.1)).measures
        for called, measure in name_parts(usual).items():
            if "[" in called:
                assert apply_changes(usual, [called], Linf(0.1)) == (measure,)
    twins = asked("universal_quantile[steps=3]", "universal_quantile[steps=5,divergence=cosine]")
    assert tuple(asked(*name_parts(twins))[number].attack.steps for number in range(2)) == (3, 5)


def test_holds_tells_parts_apart() -> None:
    spec = registry.spec(UniversalQuantile(Pgd(5), Linf(0.1)))
    assert holds("universal_quantile[attack.steps=5,attack=pgd,radius=0.1]", spec)
    assert not holds("universal_quantile[steps=6]", spec)
    assert not holds("universal_quantile[attack=apgd]", spec)
    assert not holds("breakaway_risk[steps=5]", spec)


def test_trainings_take_the_same_values() -> None:
    table = {"encoder": "zoo:digits-simclr", "data": "digits", "method": "simclr"}
    recipe = make_recipe(table, ["adversary={threat=linf[radius=8/255],attack={name=pgd,steps=3}}"])
    assert recipe.adversary is not None
    assert (recipe.adversary.threat, recipe.adversary.attack) == (Linf(8 / 255), Pgd(3))
