"""What a report begins with: short names, who is the most robust, few numbers, whether to trust them."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.report.brief import best_first, brief, first_keys, leader, trust
from holdfast.report.documents.comparison import document, explain_doubt, first_names, front, opening
from holdfast.report.documents.comparison import trust as trust_compared
from holdfast.report.leader import lead_of
from holdfast.report.leaderboard import render
from holdfast.report.names import LONGEST, short_names, shorten_names
from holdfast.report.numbers import bracket
from holdfast.report.render import to_text
from holdfast.storage.comparison import ComparedPair, Comparison, Leaderboard, Pareto, ParetoPoint
from holdfast.storage.record import PairEntry
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
    assert NAMES[0] not in nobody.text  # the first one wins against it
    for pair in record["comparison"]["cosine_similarity"]["pairs"]:
        pair["winner"] = None
    level = leader(typed(record))
    assert level is not None
    assert all(name in level.text for name in NAMES)


def test_a_winner_is_told_with_the_paired_difference(record) -> None:
    in_words(record, "cosine_similarity")
    for encoder, value in zip(record["encoders"], (0.02, 0.05, 0.1), strict=True):
        measure = encoder["measures"]["cosine_similarity"]
        measure |= {"unit": "pixels", "levels": True}
        measure["scores"]["50 steps"] |= {"value": value, "low": None, "high": None}
    for pair in record["comparison"]["cosine_similarity"]["pairs"]:
        pair["difference"] |= {"value": -0.05, "low": -0.06, "high": -0.04}
    best = leader(typed(record))
    assert best is not None
    assert best.text == (
        f"Its cosine similarity is 25.5/255, that of {NAMES[1]}, the next, 12.8/255. On the same images the "
        "difference is 12.8/255 [10.2, 15.3], which is statistically significant."
    )
    shown = brief(typed(record))
    at = [head.title for head in shown.heads].index("behind the first")
    assert [line.figures[at].value for line in shown.lines] == ["–", "12.8/255", "12.8/255"]


def test_who_is_not_ranked_is_behind_nobody(record) -> None:
    in_words(record, "cosine_similarity")
    entry = next(e for e in record["encoders"] if e["name"] == NAMES[0])
    entry["checks"]["trained"] = {
        "title": "Trained", "status": "warn", "called": "Looks untrained", "finding": "", "meaning": "",
        "consequence": "caution", "details": {},
    }  # fmt: skip
    lines = {line.name: line for line in brief(typed(record)).lines}
    assert lines[NAMES[0]].figures[1].value == "not ranked"
    assert lines[NAMES[1]].figures[1].value != "not ranked"


@pytest.mark.parametrize(("better", "sign"), [("higher", 1), ("lower", -1)])
def test_who_is_ahead_is_ahead_by_more_than_nothing(better: str, sign: int) -> None:
    pair = PairEntry(first="a", second="b", difference=make_score(sign * 0.2, sign * 0.2 - 0.1, sign * 0.2 + 0.1))
    ahead, behind = lead_of(pair, "a", better), lead_of(pair, "b", better)
    assert (ahead.value, ahead.low, ahead.high) == pytest.approx((0.2, 0.1, 0.3))
    assert (behind.value, behind.low, behind.high) == pytest.approx((-0.2, -0.3, -0.1))


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


def test_the_answer_of_one_encoder_is_its_heading(tmp_path) -> None:
    record = make_run(tmp_path, 1)
    assert leader(typed(record)) is None  # nothing is answered in words
    in_words(record, "cosine_similarity")
    record["encoders"][0]["measures"]["cosine_similarity"]["in_words"]["is_number"] = True
    alone = leader(typed(record))
    assert alone is not None
    assert alone.heading == f"{record['encoders'][0]['name']}: Half of the images hold"
    record["encoders"][0]["checks"]["trained"] = {
        "title": "Trained", "status": "warn", "called": "Looks untrained", "finding": "all are drawn", "meaning": "",
        "consequence": "caution", "details": {},
    }  # fmt: skip
    doubtful = leader(typed(record))
    assert doubtful is not None
    assert doubtful.heading.endswith(": looks untrained")
    assert doubtful.text.startswith("All are drawn. ")
    assert "for such an encoder this means little" in doubtful.text


def test_the_best_stands_first_and_void_last(record) -> None:
    in_brief(record, "cosine_similarity")
    assert [line.name for line in brief(typed(record)).lines] == [NAMES[2], NAMES[1], NAMES[0]]
    record["encoders"][2]["measures"]["cosine_similarity"]["scores"]["50 steps"]["standing"] = "void"
    lines = brief(typed(record)).lines
    assert [line.name for line in lines] == [NAMES[1], NAMES[0], NAMES[2]]
    assert [line.figures[0].value for line in lines][2] == "void"


def test_checks_add_up_and_doubts_are_named(record) -> None:
    flawed, doubtful, sound = typed(record).encoders
    assert (trust(flawed).status, trust(flawed).text) == ("fail", "7 of 8 checks passed")
    assert trust(flawed).doubts == (("fail", "1 failed: masking"),)
    assert trust(doubtful).status == "warn"
    assert "warning" in trust(doubtful).doubts[0][1]
    assert trust(sound).text == "all 8 checks passed"
    assert trust(replace(sound, checks={})).status == "skip"


@pytest.mark.parametrize(
    ("attack", "certificate", "unit", "better", "words"),
    [
        (0.173, 0.088, "pixels", "higher", "proved 0.0880, broken at 0.173"),
        (0.173, 0.0, "pixels", "higher", "nothing proved, broken at 0.173"),
        (0.16, 0.9, "share", "lower", "attack finds 16 %, proved ≤ 90 %"),
        (0.16, 1.0, "share", "lower", "attack finds 16 %, nothing proved"),
        (0.6, 0.4, "share", "higher", "proved 40 %, attack leaves 60 %"),
        (0.2, 0.1, "255ths", "higher", "proved 25.5/255, broken at 51.0/255"),
    ],
)
def test_brackets_are_words(attack: float, certificate: float, unit: str, better: str, words: str) -> None:
    scores = {"attack": make_score(attack), "certificate": make_score(certificate)}
    levels, unit = unit == "255ths", unit.replace("255ths", "pixels")
    assert bracket(scores, unit, better, levels) == words
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


def test_a_comparison_marks_the_numbers_that_a_warning_concerns() -> None:
    data = comparison("a")
    for m in data.measures.values():
        for row in m.rows:
            assert explain_doubt(row, data) == ""
    radius = data.measures["radius"]
    checks = ("noise_order", "masking")
    rows = [ranked_row(name, make_score(value, checks=checks)) for name, value in (("a", 0.1), ("b", 0.05))]
    data = replace(data, measures=data.measures | {"radius": replace(radius, rows=rows)})
    assert [explain_doubt(row, data) for row in rows] == ["warning: weak attack or noise", ""]
    text = to_text(document(data))
    assert [line.split()[2] for line in text.splitlines() if line.startswith("   a ")] == ["!", "–"]
    assert "! one of the warnings above concerns this number" in text
    assert render(Leaderboard(groups=[data])).count('class="doubtful" title=') == 2  # of the first measures, and of all


def test_a_comparison_prints_standard_terms() -> None:
    data = comparison("a")
    value = make_score(0.1)
    points = [ParetoPoint(encoder=name, x=value, y=value, dominated_by=by) for name, by in (("a", []), ("b", ["a"]))]
    pareto = Pareto(why_not="", x="radius", y="other", points=points)
    assert front(replace(data, pareto=pareto)) == "On the Pareto front of radius and other: a"
    assert trust_compared(replace(data.encoders[0], warns=["stronger_attack"])) == ("warn", "warning: weak attack")


def test_a_comparison_begins_with_who_holds_best_and_whom_to_trust() -> None:
    lines = [line.plain for line in opening(comparison("a"))]
    best = "Its radius is 25.5/255, that of b, 12.8/255. "
    best += "On the same images the difference is 12.8/255 [10.2, 15.3] (p < 0.001), "
    best += "which is statistically significant."
    assert lines == [
        f"a is the most robust. {best}",
        "a: warnings: misleading gradients and weak attack or noise",
        "b: a check failed (misleading gradients)",
    ]
    nobody = opening(comparison(None))[0].plain
    assert nobody.startswith("No encoder is clearly the most robust. By radius, a (25.5/255) and b")
    assert first_names(comparison("a")) == ["radius"]
