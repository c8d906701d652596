"""Numbers in the report: the digits follow the interval, undefined stays undefined."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.report import numbers as f
from report_fixture import make_score


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.0012, 0.0005, 0.0031, "0.12 % [0.05, 0.31]"),
        (0.123, 0.091, 0.152, "12.3 % [9.1, 15.2]"),
        (0.37, 0.25, 0.5, "37 % [25, 50]"),
        (0.0, 0.0, 0.0183, "0.0 % [0.0, 1.8]"),
        (0.9997, 0.98, 1.0, "99.97 % [98.00, 100.00]"),
        (1.0, 1.0, 1.0, "100 %"),
        (None, None, None, "undefined"),
        (float("nan"), None, None, "undefined"),
        (0.0012, None, None, "0.12 %"),
        (0.5, float("nan"), 0.6, "50 %"),
        (0.9999999999619, None, None, "> 99.9999 %"),
        (0.9999999999619, 0.99999999, 1.0, "> 99.9999 % [> 99.9999, 100]"),
        (0.9999999999619, 0.97, 1.0, "> 99.9999 % [97.0, 100.0]"),
        (1.0, 0.99999999, 1.0, "100 % [> 99.9999, 100]"),
        (1 - 1e-16, None, None, "100 %"),
    ],
)
def test_shares_are_percent_with_the_digits_their_interval_supports(value, low, high, text):
    assert f.score(make_score(value, low, high), "share") == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.0523, 0.0497, 0.0550, "0.0523 [0.0497, 0.0550]"),
        (-0.1234, -0.2, -0.05, "−0.12 [−0.20, −0.05]"),
        (-0.00001, -0.02, 0.02, "−0.00001 [−0.02000, 0.02000]"),
        (1.5, None, None, "1.50"),
        (2e-9, None, None, "2e-09"),
    ],
)
def test_ratios(value, low, high, text):
    assert f.score(make_score(value, low, high), "ratio") == text


@given(st.floats(1e-5, 1 - 1e-5), st.floats(0, 0.3), st.floats(0, 0.3))
def test_no_share_is_rounded_to_nothing_or_to_everything(value, below, above):
    text = f.number(value, "share", max(0.0, value - below), min(1.0, value + above)).removesuffix(" %")
    assert 0 < float(text) < 100


@given(st.floats(0, 1, exclude_max=True), st.sampled_from([None, 1, 2, 3]), st.floats(0, 1), st.floats(0, 1))
def test_no_share_below_all_is_written_as_all_and_no_lower_end(value, digits, low, high):
    def all_of_it(text):
        return not text.startswith("> ") and float(text) == 100

    low, high = low * value, value + high * (1 - value)
    exact = 100 - 100 * value <= 1e-12
    assert all_of_it(f.number(value, "share", low, high, digits).removesuffix(" %")) == exact
    entry = make_score(value, low, high)
    assume(entry.low is not None)  # no interval has zero width
    end = f.interval(entry, "share", digits)[1:].split(",")[0]
    assert all_of_it(end) == (100 - 100 * low <= 1e-12)


@given(st.floats(-1e3, 1e3), st.floats(1e-4, 10))
def test_rounding_stays_well_inside_the_interval(value, half):
    text = f.number(value, "ratio", value - half, value + half).replace("−", "-")
    assert abs(float(text) - value) <= half / 2


ENDS = st.one_of(st.just(0.0), st.just(-0.0), st.floats(-10, 10), st.floats(-1e-3, 1e-3)).filter(
    lambda end: end == 0 or abs(end) > 1e-11
)


@given(ENDS, ENDS, ENDS, st.sampled_from(["ratio", "share", "pixels"]), st.sampled_from([None, 1, 3]))
def test_no_end_but_zero_looks_like_zero_and_zero_has_no_sign(a, b, c, unit, digits):
    low, value, high = sorted([a, b, c])
    entry = make_score(value, low, high)
    said = [(value, f.number(value, unit, low, high, digits).removesuffix(" %"))]
    if entry.low is not None:  # no interval has zero width
        said += zip((low, high), f.interval(entry, unit, digits).strip("[]").split(", "), strict=True)
    for end, text in said:
        number = float(text.replace("−", "-"))
        assert (number > 0, number < 0) == (end > 0, end < 0)
        assert text.startswith("−") == (end < 0)


def test_an_end_next_to_zero_keeps_its_digit():
    assert f.interval(make_score(-0.005, -0.009, -0.0003)) == "[−0.009, −0.0003]"


def test_durations():
    assert [f.duration(s) for s in (0.25, 52.3, 192, 3840, None)] == ["0.2 s", "52 s", "3 min 12 s", "1 h 4 min", "-"]
    assert f.duration(math.inf) == "-"


def test_parts_read_like_calls():
    spec = {"kind": "attacks", "name": "pgd", "steps": 50, "inner": [{"kind": "threats", "name": "l2", "radius": 0.5}]}
    assert f.part(spec) == "pgd(steps=50, inner=[l2(radius=0.5)])"


def test_listings_are_cut():
    assert f.listing(["a"]) == "a"
    assert f.listing(["a", "b", "c"]) == "a, b and c"
    assert f.listing([*"abcdefg"], limit=3) == "a, b and 5 more"


def test_a_number_whose_check_failed_is_shown_as_what_is_left_of_it() -> None:
    entry = make_score(0.0013, 0.0, 0.0066, because=("masking",))
    assert f.score(replace(entry, standing="at least"), "share") == "at least 0.13 %"
    assert f.score(replace(entry, standing="void"), "share") == "void"
    assert f.choice(replace(entry, standing="void")) == "void"
    assert "[" in f.score(entry, "share")
    almost = make_score(1 - 1e-9)
    assert f.score(replace(almost, standing="at least"), "share") == "> 99.9999 %"
    assert f.score(replace(almost, standing="at most"), "share") == "< 100 %"
    proved = {"attack": make_score(0.2), "certificate": almost}
    assert f.bracket(proved, "share", "lower") == "attack finds 20 %, proved < 100 %"
