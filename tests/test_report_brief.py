"""What a report begins with: short names, who is the most robust, few numbers, whether to trust them."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.report.brief import best_first, brief, first_keys, leader, trust
from holdfast.report.documents.comparison import first_names, front, opening
from holdfast.report.documents.comparison import trust as trust_compared
from holdfast.report.names import LONGEST, short_names, shorten_names
from holdfast.report.numbers import bracket
from holdfast.storage.comparison import ComparedPair, Comparison, Pareto, ParetoPoint
from json_records import compared_encoder, compared_measure, ranked_row, small_comparison, typed
from report_fixture import MEASURES, NAMES, SHORT, harden, in_brief, in_words, make_run, make_score


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> dict[str, Any]:
    return make_run(tmp_path_factory.mktemp("run"))


@pytest.fixture
def record(run) -> dict[str, Any]:
    return copy.deepcopy(run)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["zoo:digits-simclr", "zoo:digits-supervised"], ["digits-simclr", "digits-supervised"]),
        (["file:runs/a/last.pt", "file:runs/b/last.pt"], ["a/last.pt", "b/last.pt"]),
        (["zoo:x", "zoo:x?weights=random", "hf:org/y"], ["x", "x?weights=random", "y"]),
        (["zoo:x", "timm:x"], ["zoo:x", "timm:x"]),
        (["zoo:x (runs/a)", "zoo:x (runs/b)"], ["x (runs/a)", "x (runs/b)"]),
        (["my label: best", "first/epoch1", "second/epoch1"], ["my label: best", "first/epoch1", "second/epoch1"]),
        (["zoo:"], ["zoo:"]),
    ],
)
def test_a_name_is_as_short_as_tells_it_apart(names: list[str], short: list[str]) -> None:
    assert list(short_names(names).values()) == short


def test_long_names_lose_their_middle_but_stay_different() -> None:
    names = [f"py:{'x' * 60}{end}{'y' * 60}" for end in "ab"]
    assert list(short_names(names).values()) == [name.removeprefix("py:") for name in names]
    (one,) = short_names(names[:1]).values()
    assert len(one) == LONGEST
    assert "…" in one


def test_short_names_stand_wherever_a_record_names_encoders(record) -> None:
    whole = typed(record)
    short, wholes = shorten_names(whole)
    assert [(e.name, wholes[e.name]) for e in short.encoders] == list(zip(SHORT, NAMES, strict=True))
    assert {entry.best for entry in short.comparison.values()} == {SHORT[2]}
    pairs = [pair for entry in short.comparison.values() for pair in entry.pairs]
    assert {name for pair in pairs for name in (pair.first, pair.second)} == set(SHORT)
    assert short.plan == whole.plan


def test_what_answers_comes_first_then_what_is_in_brief(record) -> None:
    assert first_keys(typed(record)) == list(MEASURES)[:5]  # an older record says nothing of it
    in_brief(record, "cosine_similarity", "overlap_risk")
    assert first_keys(typed(record)) == ["cosine_similarity", "overlap_risk"]
    in_words(record, "overlap_risk")
    assert first_keys(typed(record)) == ["overlap_risk", "cosine_similarity"]


def test_the_leader_is_the_one_that_the_comparison_names(record) -> None:
    in_words(record, "cosine_similarity")
    best = leader(typed(record))
    assert best is not None
    assert (best.heading, best.tone) == (f"{NAMES[2]} is the most robust", "good")
    assert ", the next" in best.text
    next(e for e in record["encoders"] if e["name"] == NAMES[2])["checks"]["trained"] = {
        "title": "Trained", "status": "warn", "called": "Looks untrained", "finding": "", "meaning": "",
        "consequence": "caution", "details": {},
    }  # fmt: skip
    doubtful = leader(typed(record))
    assert doubtful is not None
    assert doubtful.heading == "No encoder is clearly the most robust"  # of the others, none is shown to be
    assert f"{NAMES[2]} is not ranked: looks untrained" in doubtful.text
    assert best_first(typed(record))[-1][1].name == NAMES[2]
    (entry,) = (e for e in record["encoders"] if e["name"] == NAMES[2])
    entry["checks"]["trained"] |= {
        "called": "",
        "consequence": "no winner",
        "title": "Enough images",
        "finding": "6 images",
    }
    few = leader(typed(record))
    assert few is not None
    assert (few.heading, few.tone) == ("No encoder is called best: the check enough images warns", "warn")
    assert few.text.startswith("6 images. By ")
    record["plan"]["allow"] = ["trained"]
    assert leader(typed(record)) == best
    record["comparison"]["cosine_similarity"]["best"] = None
    nobody = leader(typed(record))
    assert nobody is not None
    assert nobody.heading == "No encoder is clearly the most robust"
    assert NAMES[2] in nobody.text
    assert NAMES[0] not in nobody.text  # its paired interval against the first leaves out zero
    for pair in record["comparison"]["cosine_similarity"]["pairs"]:
        pair["difference"] |= {"low": -1.0, "high": 1.0}
    level = leader(typed(record))
    assert level is not None
    assert all(name in level.text for name in NAMES)


def test_lengths_are_compared_by_how_many_times(record) -> None:
    in_words(record, "cosine_similarity")
    for encoder, value in zip(record["encoders"], (0.02, 0.05, 0.1), strict=True):
        measure = encoder["measures"]["cosine_similarity"]
        measure["unit"] = "pixels"
        measure["scores"]["50 steps"] |= {"value": value, "low": None, "high": None}
    best = leader(typed(record))
    assert best is not None
    assert f"2 times that of {NAMES[1]}, the next (0.0500)" in best.text
    record["encoders"][2]["measures"]["cosine_similarity"]["in_words"]["levels"] = True
    best = leader(typed(record))
    assert best is not None
    assert f"25.5/255, 2 times that of {NAMES[1]}, the next (12.8/255)" in best.text
    record["encoders"][2]["measures"]["cosine_similarity"]["scores"]["50 steps"]["value"] = 0.0525
    best = leader(typed(record))
    assert best is not None
    assert f"1.05 times that of {NAMES[1]}" in best.text  # not "1 times"
    record["encoders"][1]["measures"]["cosine_similarity"]["scores"]["50 steps"]["standing"] = "at most"
    best = leader(typed(record))
    assert best is not None
    assert "times that of" not in best.text  # a bound is not how much the other one has


def test_a_hardening_that_costs_too_much_does_not_simply_win(record) -> None:
    in_words(record, "cosine_similarity")
    for warnings, heading, tone in (
        ([], f"{NAMES[2]} is the most robust", "good"),
        (["dear"], f"{NAMES[2]} is the most robust, at a price", "warn"),
    ):
        harden(record, *warnings)
        best = leader(typed(record))
        assert best is not None
        assert (best.heading, best.tone) == (heading, tone)


def test_one_encoder_leads_nobody(tmp_path) -> None:
    assert leader(typed(make_run(tmp_path, 1))) is None


def test_the_best_stands_first_and_void_last(record) -> None:
    in_brief(record, "cosine_similarity")
    assert [line.name for line in brief(typed(record)).lines] == [NAMES[2], NAMES[1], NAMES[0]]
    record["encoders"][2]["measures"]["cosine_similarity"]["scores"]["50 steps"]["standing"] = "void"
    lines = brief(typed(record)).lines
    assert [line.name for line in lines] == [NAMES[1], NAMES[0], NAMES[2]]
    assert [line.figures[0].value for line in lines][2] == "void"


def test_trust_is_about_the_checks_behind_the_first_number(record) -> None:
    flawed, doubtful, sound = typed(record).encoders
    assert trust(flawed, []).text == "1 of 8 failed"
    assert trust(flawed, []).further == "masking"
    assert trust(doubtful, []).status == "warn"
    assert trust(sound, []).text == "8 checks passed"
    score = record["encoders"][0]["measures"]["overlap_risk"]["scores"]["50 steps"]
    score["checks"] = ["input_range", "eval_mode"]
    others = trust(typed(record).encoders[0], ["overlap_risk"])
    assert (others.status, others.text) == ("pass", "2 checks passed")
    assert others.further == "behind other numbers: 1 failed"
    assert trust(replace(sound, checks={}), []).status == "skip"


@pytest.mark.parametrize(
    ("attack", "certificate", "unit", "better", "words"),
    [
        (0.173, 0.088, "pixels", "higher", "proved 0.0880, broken at 0.173"),
        (0.173, 0.0, "pixels", "higher", "nothing proved, broken at 0.173"),
        (0.16, 0.9, "share", "lower", "attack finds 16 %, proved ≤ 90 %"),
        (0.16, 1.0, "share", "lower", "attack finds 16 %, nothing proved"),
        (0.6, 0.4, "share", "higher", "proved 40 %, attack leaves 60 %"),
    ],
)
def test_brackets_are_words(attack: float, certificate: float, unit: str, better: str, words: str) -> None:
    scores = {"attack": make_score(attack), "certificate": make_score(certificate)}
    assert bracket(scores, unit, better) == words
    assert bracket({"attack": scores["attack"]}, unit, better) == ""
    assert bracket(scores | {"attack": make_score(attack, standing="void")}, unit, better) == "void"


def comparison(winner: str | None) -> Comparison:
    """Return a comparison of two encoders on a length in grey levels, and another measure."""
    rows = [ranked_row("a", make_score(0.1)), ranked_row("b", make_score(0.05))]
    pair = ComparedPair(
        first="b", second="a", winner=winner, p=1e-5, p_adjusted=2e-5, difference=make_score(-0.05, -0.06, -0.04)
    )
    facts = {"unit": "pixels", "better": "higher"}
    radius = compared_measure(rows, title="Radius", best=winner, pairs=[pair], answers=True, levels=True, **facts)
    warned = ["masking[attack=pgd]", "masking[attack=apgd]", "noise_order"]
    encoders = [compared_encoder("a", warns=warned), compared_encoder("b", fails=["masking"])]
    return small_comparison(encoders, {"other": compared_measure(rows, title="Other", **facts), "radius": radius})


def test_a_comparison_prints_standard_terms() -> None:
    data = comparison("a")
    value = make_score(0.1)
    points = [ParetoPoint(encoder=name, x=value, y=value, dominated_by=by) for name, by in (("a", []), ("b", ["a"]))]
    pareto = Pareto(why_not="", x="radius", y="other", points=points)
    assert front(replace(data, pareto=pareto)) == "On the Pareto front of radius and other: a"
    assert trust_compared(replace(data.encoders[0], warns=["stronger_attack"])) == ("warn", "warning: stronger attack")


def test_a_comparison_begins_with_who_holds_best_and_whom_to_trust() -> None:
    lines = [line.plain for line in opening(comparison("a"))]
    best = "Its radius is 25.5/255, 2 times that of b (12.8/255). "
    best += "Compared image by image, the difference is significant (p < 0.001)."
    assert lines == [
        f"a is the most robust. {best}",
        "a: warnings: masking and noise order",
        "b: fails masking",
    ]
    nobody = opening(comparison(None))[0].plain
    assert nobody.startswith(
        "No encoder is clearly the most robust. By radius, these images do not separate a (25.5/255) and b"
    )
    assert first_names(comparison("a")) == ["radius"]
