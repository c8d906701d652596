"""What may be lost against a baseline, as users write it."""

import pytest

from holdfast.config.margins import Margin, Scored, margins, parse
from holdfast.core import HoldfastError
from holdfast.runtime.errors import BadValue

MEASURES = {
    "breaking_radius": Scored(
        {"median": "higher", "holds at 1/255": "higher"}, "median", {"median": "pixels", "holds at 1/255": "share"}
    ),
    "breakaway_risk": Scored(
        dict.fromkeys(("10 steps", "20 steps"), "lower"), "20 steps", {"10 steps": "share", "20 steps": "share"}
    ),
    "kept[radius=0.1]": Scored({"gamma 0.5": "higher"}, "gamma 0.5", {"gamma 0.5": "share"}),
}


def held(*texts: str) -> dict[tuple[str, str], tuple[float, bool]]:
    return {key: (margin.amount, margin.relative) for key, margin in margins(texts, MEASURES).items()}


def test_percent_of_a_share_is_points_and_else_relative() -> None:
    assert held("breaking_radius 5%") == {("breaking_radius", "median"): (0.05, True)}
    assert held("breaking_radius 1/255") == {("breaking_radius", "median"): (1 / 255, False)}
    assert held("breakaway_risk 5 %") == {("breakaway_risk", "20 steps"): (0.05, False)}
    assert held("breakaway_risk 0.02") == {("breakaway_risk", "20 steps"): (0.02, False)}
    assert held("breakaway_risk 5% relative") == {("breakaway_risk", "20 steps"): (0.05, True)}
    assert held("breakaway_risk 150 % relative") == {("breakaway_risk", "20 steps"): (1.5, True)}
    assert held("breakaway_risk.10 steps 1 point") == {("breakaway_risk", "10 steps"): (0.01, False)}
    assert held("kept[radius=0.1].gamma 0.5 2e0%") == {("kept[radius=0.1]", "gamma 0.5"): (0.02, False)}
    assert held("breaking_radius.holds at 1/255 3%") == {("breaking_radius", "holds at 1/255"): (0.03, False)}


def test_an_amount_alone_is_for_all_headlines_and_a_name_counts_for_more() -> None:
    headlines = [(name, measure.headline) for name, measure in MEASURES.items()]
    assert held() == dict.fromkeys(headlines, (0.0, False))
    every = held("5%", "breakaway_risk 1%", "breakaway_risk.10 steps 2%")
    assert list(every) == [*headlines, ("breakaway_risk", "10 steps")]
    assert list(every.values()) == [(0.05, True), (0.01, False), (0.05, False), (0.02, False)]
    assert margins(["breaking_radius 5%"], MEASURES)["breaking_radius", "median"] == Margin(
        0.05, True, "5 % of the baseline"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius five %", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius nan", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius 5 % absolute", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius 0.02 relative", "expected [MEASURE[.SCORE]] AMOUNT"),
        ("breaking_radius 1/0", "expected a finite number"),
        ("breaking_radius 1e999", "expected a finite number"),
        ("breaking_radius -5%", "at least 0"),
        ("breaking_radius 100%", "nothing exceeds"),
        ("breaking_radius 5 points", "not a share"),
        ("breakaway_risk 5", "did you mean 5 %?"),
        ("breakaway_risk 100 points", "nothing exceeds"),
        ("breaking_radios 5%", "did you mean 'breaking_radius'"),
        ("breakaway_risk.30 steps 5%", "unknown score of breakaway_risk"),
        ("0.02", "the measure it is for"),
    ],
)
def test_what_cannot_be_read_or_exceeded_is_refused(text: str, said: str) -> None:
    with pytest.raises(HoldfastError) as refused:
        margins([text], MEASURES)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_score_is_held_by_one_margin() -> None:
    with pytest.raises(BadValue, match=r"breakaway_risk\.20"):
        margins(["breakaway_risk 1%", "breakaway_risk.20 steps 2%"], MEASURES)
    with pytest.raises(BadValue, match="'1%'"):
        margins(["1%", "2%"], MEASURES)


def test_a_margin_is_read_in_its_parts() -> None:
    drop = parse("  breakaway_risk.20 steps   5%relative ")
    assert (drop.subject, drop.amount, drop.kind) == ("breakaway_risk.20 steps", 5.0, "% relative")
