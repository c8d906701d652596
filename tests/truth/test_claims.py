"""Claims of papers are judged by intervals: holds, fails, or not shown."""

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from holdfast.core import HoldfastError, Score
from holdfast.numerics.statistics import clopper_pearson
from holdfast.runtime.errors import UnknownName
from holdfast.storage.reproduction import UNASKED, Agreement
from holdfast.workflows.reproduce.agreement import compare_with_published
from holdfast.workflows.reproduce.claim import NETWORKS, REAL, STAND_IN, TRAINED, Cell, Claim
from holdfast.workflows.reproduce.published import judge_published
from holdfast.workflows.reproduce.recipe import read
from holdfast.workflows.reproduce.table import alike, table_of
from holdfast.workflows.reproduce.verdict import FAILS, HOLDS, NOT_SHOWN, judge, judge_claims

ROWS, COLUMNS = ["a", "b", "c", "d", "e"], ["x", "y"]


def score(value: float | None, half: float, n: int = 1000) -> Score:
    ends = (None, None) if value is None else (value - half, value + half)
    return Score(value, *ends, n, "Student's t", 0.95, "")


def table(values: Mapping[str, float | None], half: float = 0.05, **published: float) -> dict[tuple[str, str], Cell]:
    return {(row, "x"): Cell(row, "x", score(v, half), published.get(row)) for row, v in values.items()}


def outcome(claim: Claim, cells: dict[tuple[str, str], Cell], rho: float = 0.0) -> str:
    claim.check(ROWS, COLUMNS)
    return judge(claim, cells, lambda a, b: rho).outcome


@pytest.mark.parametrize(
    ("values", "expected"),
    [((0.1, 0.3, 0.6), HOLDS), ((0.1, 0.3, 0.31), NOT_SHOWN), ((0.1, 0.6, 0.3), FAILS), ((0.3, 0.29, 0.6), NOT_SHOWN)],
)
def test_a_chain_holds_where_every_step_is_clear(values: tuple[float, ...], expected: str) -> None:
    cells = table(dict(zip("abc", values, strict=True)))
    assert outcome(Claim("it rises", "rises", ["a", "b", "c"], ("x",)), cells) == expected
    mirrored = table(dict(zip("abc", (1 - v for v in values), strict=True)))
    assert outcome(Claim("it falls", "falls", ["a", "b", "c"], ("x",)), mirrored) == expected


def test_images_in_common_decide_what_chance_leaves_open() -> None:
    cells = table({"a": 0.30, "b": 0.34})
    claim = Claim("b above a", "rises", ["a", "b"], ("x",))
    assert outcome(claim, cells) == NOT_SHOWN
    assert outcome(claim, cells, rho=0.95) == HOLDS


def test_above_compares_the_first_with_each_other() -> None:
    claim = Claim("a is best", "above", ["a", "b", "c"], ("x",))
    assert outcome(claim, table({"a": 0.9, "b": 0.1, "c": 0.5})) == HOLDS
    assert outcome(claim, table({"a": 0.4, "b": 0.1, "c": 0.9})) == FAILS
    below = Claim("a is least", "below", ["a", "b", "c"], ("x",))
    assert outcome(below, table({"a": 0.1, "b": 0.5, "c": 0.9})) == HOLDS


def test_a_claim_about_several_columns_or_rows_needs_all_of_them() -> None:
    cells = table({"a": 0.1, "b": 0.5})
    cells |= {(row, "y"): Cell(row, "y", score(v, 0.05)) for row, v in (("a", 0.3), ("b", 0.7))}
    assert outcome(Claim("it rises in both", "rises", ["a", "b"], ("x", "y")), cells) == HOLDS
    assert outcome(Claim("y is larger in both", "above", ["y", "x"]), cells) == HOLDS
    cells["b", "y"] = Cell("b", "y", score(0.2, 0.05))
    assert outcome(Claim("it rises in both", "rises", ["a", "b"], ("x", "y")), cells) == FAILS
    assert outcome(Claim("y is larger in both", "above", ["y", "x"]), cells) == FAILS
    assert outcome(Claim("y is larger in a", "above", ["y", "x"], rows=("a",)), cells) == HOLDS
    assert outcome(Claim("at least", "at_least", 0.02, ("x", "y")), cells) == HOLDS
    assert outcome(Claim("at least", "at_least", 0.2, ("x", "y")), cells) == FAILS


def test_several_may_each_be_above_the_others() -> None:
    claim = Claim("a and b are best", "above", [["a", "b"], "c", "d"], ("x",))
    assert outcome(claim, table({"a": 0.9, "b": 0.7, "c": 0.1, "d": 0.5})) == HOLDS
    assert outcome(claim, table({"a": 0.9, "b": 0.3, "c": 0.1, "d": 0.5})) == FAILS
    below = Claim("a and b are least", "below", [["a", "b"], "c", "d"], ("x",))
    assert outcome(below, table({"a": 0.1, "b": 0.2, "c": 0.7, "d": 0.5})) == HOLDS
    with pytest.raises(UnknownName, match="lost"):
        Claim("who is best", "above", [["a", "lost"], "c"], ("x",)).check(ROWS, COLUMNS)


def test_of_many_comparisons_those_against_the_claim_are_told() -> None:
    cells = {(row, column): Cell(row, column, score(0.5, 0.05)) for row in ROWS for column in COLUMNS}
    cells |= {("a", "x"): Cell("a", "x", score(0.9, 0.05)), ("a", "y"): Cell("a", "y", score(0.1, 0.05))}
    claim = Claim("a is best", "above", [["a", "b"], "c", "d", "e"], ("x", "y"))
    verdict = judge(claim, cells, lambda a, b: 0.0)
    assert verdict.outcome == FAILS
    assert verdict.why.startswith("3 of 12 comparisons are as claimed; b, x: 0.5")
    assert verdict.why.endswith("; and 1 more")


@pytest.mark.parametrize(("value", "expected"), [(0.7, HOLDS), (0.5, NOT_SHOWN), (0.3, FAILS)])
def test_limits(value: float, expected: str) -> None:
    cells = table({"a": value})
    assert outcome(Claim("at least", "at_least", 0.5, ("x",)), cells) == expected
    opposite = {HOLDS: FAILS, FAILS: HOLDS, NOT_SHOWN: NOT_SHOWN}[expected]
    assert outcome(Claim("at most", "at_most", 0.5, ("x",)), cells) == opposite
    assert outcome(Claim("within", "within", [0.5, 0.9], ("x",)), cells) == expected
    assert outcome(Claim("within", "within", [0.1, 0.5], ("x",)), cells) == opposite


@pytest.mark.parametrize(("value", "expected"), [(0.0, NOT_SHOWN), (0.001, FAILS)])
def test_one_proved_case_falsifies_and_none_proves_nothing(value: float, expected: str) -> None:
    """Of a theorem about every pair one refuted pair decides, however few they are of all."""
    cells = table({"a": 0.0, "b": value}, half=0.3)
    claim = Claim("no pair is refuted", "never", True, ("x",))
    assert outcome(claim, cells) == expected
    said = judge(claim, cells, lambda a, b: 0.0).why
    assert said.startswith("falsified, one proved case" if value else "no case was found")


def published_beside(cell: Cell, network: str = "authors") -> list[Agreement]:
    return compare_with_published([replace(cell, network=network)])


@pytest.mark.parametrize("behind", [None, 100])
def test_numbers_agree_within_the_intervals_of_both(behind: int | None) -> None:
    """As far as both intervals reach towards each other: √(.1² + .2²) where four times fewer images are published."""
    most = 0.1 if behind is None else (0.1**2 + 0.2**2) ** 0.5
    for sign in (1, -1):
        for distance, agrees in ((0.99, True), (1.01, False)):
            cell = Cell("a", "x", score(0.5, 0.1, n=400), 100 * (0.5 + sign * distance * most), 100.0, behind=behind)
            (found,) = published_beside(cell)
            assert found.agrees is agrees
            assert found.gap == pytest.approx(-100 * sign * distance * most)
            assert (found.high if sign > 0 else -found.low) == pytest.approx(found.gap * sign + 100 * most)


def test_a_published_share_of_few_images_has_its_own_interval() -> None:
    """Two samples of 100, of one truth, differ by more than their joint 95 % interval in at most 5 % of draws."""
    rng, apart = np.random.default_rng(0), 0
    draws = 400
    for truth in (0.02, 0.5, 0.97):
        for ours, theirs in rng.binomial(100, truth, (draws, 2)):
            share = Score(ours / 100, *clopper_pearson(float(ours), 100.0), 100, "exact binomial")
            (found,) = published_beside(Cell("a", "x", share, float(theirs), 100.0, behind=100))
            apart += not found.agrees
    assert apart / (3 * draws) <= 0.05
    none = Score(0.0, *clopper_pearson(0, 100), 100, "exact binomial")
    assert [published_beside(Cell("a", "x", none, p, 100.0, behind=100))[0].agrees for p in (3.0, 40.0)] == [
        True,
        False,
    ]


def test_only_what_can_be_compared_is() -> None:
    whole = Cell("a", "x", score(0.5, 0.1), 0.9)
    assert [bool(published_beside(whole, network)) for network in NETWORKS] == [True, True, False, False]
    assert not published_beside(replace(whole, published=None))
    assert not published_beside(replace(whole, score=None))
    assert not published_beside(replace(whole, score=Score(0.5, None, None, 1, "none: one run")))


@pytest.mark.parametrize(("value", "kind", "expected"), [
    (0.5, "order statistics", NOT_SHOWN), (0.9, "order statistics", NOT_SHOWN),
    (0.5, "none: one run", HOLDS), (0.9, "none: one run", FAILS),
])  # fmt: skip
def test_a_sample_too_small_for_an_interval_shows_nothing(value: float, kind: str, expected: str) -> None:
    cells = {("a", "x"): Cell("a", "x", Score(value, None, None, 20, kind))}
    assert outcome(Claim("about a half", "within", [0.4, 0.6], ("x",)), cells) == expected


def test_correlation_over_rows() -> None:
    up = {row: 0.1 * i for i, row in enumerate(ROWS)}
    cells = table(up) | {(row, "y"): Cell(row, "y", score(v + 0.001 * (v > 0.2), 0.1)) for row, v in up.items()}
    claim = Claim("they go together", "correlates", ["x", "y"])
    assert outcome(claim, cells) == HOLDS
    down = table(up) | {(row, "y"): Cell(row, "y", score(1 - v, 0.1)) for row, v in up.items()}
    assert outcome(claim, down) in (FAILS, NOT_SHOWN)
    assert outcome(claim, down) != HOLDS


def test_what_is_there_can_fail_a_claim_but_not_show_it_alone() -> None:
    gaps = {"a": 0.1, "b": 0.4, "c": None}
    assert outcome(Claim("it rises", "rises", ["a", "b", "c"], ("x",)), table(gaps)) == NOT_SHOWN
    assert outcome(Claim("it falls", "falls", ["a", "b", "c"], ("x",)), table(gaps)) == FAILS
    limits = {"a": 0.7, "b": None}
    assert outcome(Claim("at least", "at_least", 0.5, ("x",)), table(limits)) == NOT_SHOWN
    assert outcome(Claim("at most", "at_most", 0.5, ("x",)), table(limits)) == FAILS


def test_what_is_missing_shows_nothing() -> None:
    cells = table({"a": None, "b": 0.4})
    verdict = judge(Claim("it rises", "rises", ["a", "b"], ("x",)), cells, lambda a, b: 0.0)
    assert verdict.outcome == NOT_SHOWN
    assert "a, x" in verdict.why


def test_of_equal_rows_few_are_called_different() -> None:
    import numpy as np

    rng, wrong = np.random.default_rng(0), 0
    for _ in range(400):
        values = {row: float(rng.normal(0.5, 0.05 / 1.96)) for row in "abc"}
        cells = table(values)
        said = [outcome(Claim("", "rises", list(order), ("x",)), cells) for order in itertools.permutations("abc")]
        wrong += HOLDS in said or FAILS in (said[0],)
    assert wrong / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.parametrize(
    "claim",
    [
        Claim("t", "rises", ["a", "nobody"], ("x",)),
        Claim("t", "rises", ["a"], ("x",)),
        Claim("t", "rises", ["a", "b"], ("nowhere",)),
        Claim("t", "at_least", "much", ("x",)),
        Claim("t", "correlates", ["x", "nowhere"]),
        Claim("t", "at_least", 0.5, ("x",), rows=("nobody",)),
        Claim("t", "at_least", 0.5),
        Claim("t", "within", 0.5, ("x",)),
        Claim("t", "within", [0.5, 0.2], ("x",)),
        Claim("t", "at_most", True, ("x",)),
        Claim("t", "never", 0.0, ("x",)),
        Claim("t", "rises", ["a", "b"], ("x",), rows=("a",)),
        Claim("t", "correlates", ["x", "y"], ("x",)),
    ],
)
def test_claims_about_what_is_not_there_are_refused(claim: Claim) -> None:
    with pytest.raises(HoldfastError):
        claim.check(ROWS, COLUMNS)


def of_networks(rows: Mapping[str, tuple[str, float]]) -> dict[tuple[str, str], Cell]:
    """Cells of networks by name, as small profiles let one stand for several of a paper's."""
    return {
        (row, "x"): Cell(row, "x", score(v, 0.02), of=f"{network}, x", network="real")
        for row, (network, v) in rows.items()
    }


def test_a_network_is_not_compared_with_itself() -> None:
    cells = of_networks({"a": ("plain", 0.1), "b": ("hard", 0.5), "c": ("hard", 0.5)})
    claim = Claim("it rises", "rises", ["a", "b", "c"], ("x",))
    verdict = judge(claim, cells, lambda a, b: 0.0)
    assert verdict.outcome == NOT_SHOWN
    assert "b, x and c, x: one network stands for both" in verdict.why
    assert outcome(Claim("it falls", "falls", ["a", "b", "c"], ("x",)), cells) == FAILS  # the other step does
    assert outcome(Claim("it rises", "rises", ["a", "b"], ("x",)), cells) == HOLDS


def test_one_network_does_not_show_two_claims() -> None:
    cells = of_networks({"a": ("plain", 0.1), "b": ("hard", 0.5), "c": ("plain", 0.1), "d": ("hard", 0.5)})
    claims = [Claim(text, "rises", rows, ("x",)) for text, rows in (("Base", ["a", "b"]), ("CNN-A", ["c", "d"]))]
    first, second = judge_claims(claims, cells, lambda a, b: 0.0)
    assert (first.outcome, second.outcome) == (HOLDS, NOT_SHOWN)
    assert "one network stands for those of this claim and of “Base”" in second.why
    apart = of_networks({"a": ("plain", 0.1), "b": ("hard", 0.5), "c": ("other", 0.1), "d": ("hard", 0.5)})
    assert [verdict.outcome for verdict in judge_claims(claims, apart, lambda a, b: 0.0)] == [HOLDS, HOLDS]
    limits = [Claim(text, "at_least", 0.4, ("x",), (row,)) for text, row in (("b", "b"), ("d", "d"), ("b again", "b"))]
    assert [verdict.outcome for verdict in judge_claims(limits, cells, lambda a, b: 0.0)] == [
        HOLDS,
        NOT_SHOWN,
        NOT_SHOWN,
    ]


def test_rows_of_one_network_are_named() -> None:
    cells = of_networks({"a": ("plain", 0.1), "b": ("hard", 0.5), "c": ("hard", 0.5), "d": ("", 0.5)})
    cells["d", "x"] = Cell("d", "x", score(0.5, 0.02))
    assert alike(cells) == [["b", "c"]]


def printed(*values: float | None) -> dict[tuple[str, str], Cell]:
    """Return a table whose published numbers are given, and ours missing."""
    return {(row, "x"): Cell(row, "x", None, value) for row, value in zip(ROWS, values, strict=False)}


def test_the_papers_own_table_is_asked_what_ours_is() -> None:
    claim = Claim("a is best", "above", ["a", "b", "c", "d"], ("x",))
    paper = judge_published(claim, printed(45.3, 40.0, 45.3, 45.4))
    assert paper is not None
    assert (paper.number, paper.as_claimed) == (3, 1)
    assert paper.ties == ("a, x: 45.3 against c, x: 45.3",)
    assert paper.against == ("a, x: 45.3 against d, x: 45.4",)
    least = judge_published(Claim("a is least", "below", ["a", "b", "d"], ("x",)), printed(45.3, 40.0, 45.3, 45.4))
    assert least is not None
    assert (least.number, least.as_claimed, least.ties) == (2, 1, ())
    chain = judge_published(Claim("it rises", "rises", ["a", "b", "c"], ("x",)), printed(1.0, 3.0, 2.0))
    assert chain is not None
    assert (chain.as_claimed, chain.against) == (1, ("c, x: 2 against b, x: 3",))


def test_limits_and_correlations_are_tried_on_the_paper_too() -> None:
    limited = judge_published(Claim("at most", "at_most", 5, ("x",), ("a", "b")), printed(5.0, 6.0))
    assert limited is not None
    assert (limited.number, limited.as_claimed, limited.against) == (2, 1, ("b, x: 6",))
    columns = {(row, "x"): Cell(row, "x", None, float(i)) for i, row in enumerate(ROWS)}
    columns |= {(row, "y"): Cell(row, "y", None, float(i * i)) for i, row in enumerate(ROWS)}
    claim = Claim("they go together", "correlates", ["x", "y"])
    clear = judge_published(claim, columns)
    assert clear is not None
    assert (clear.number, clear.as_claimed) == (1, 1)
    few = judge_published(claim, {key: cell for key, cell in columns.items() if key[0] in "abc"})
    assert few is not None
    assert (few.as_claimed, len(few.ties)) == (0, 1)
    against = {key: replace(cell, published=-(cell.published or 0)) for key, cell in columns.items() if key[1] == "y"}
    opposite = judge_published(claim, columns | against)
    assert opposite is not None
    assert opposite.against[0].startswith("Pearson correlation -0.959")


def test_without_published_numbers_the_paper_says_nothing() -> None:
    assert judge_published(Claim("it rises", "rises", ["a", "b"], ("x",)), printed(1.0, None)) is None


def test_what_the_paper_ties_need_not_be_shown_but_may_fail() -> None:
    claim = Claim("b and c above a", "below", ["a", "b", "c"], ("x",))
    level = table({"a": 0.2, "b": 0.2, "c": 0.6}, a=0.0, b=0.0, c=60.0)
    assert outcome(claim, level) == HOLDS
    assert outcome(claim, table({"a": 0.2, "b": 0.2, "c": 0.6}, a=0.0, b=1.0, c=60.0)) == NOT_SHOWN
    assert outcome(claim, table({"a": 0.2, "b": 0.2, "c": 0.2}, a=0.0, b=0.0, c=0.0)) == NOT_SHOWN  # nothing shows it
    assert outcome(claim, table({"a": 0.6, "b": 0.2, "c": 0.9}, a=0.0, b=0.0, c=60.0)) == FAILS


def test_a_claim_is_about_the_worst_of_its_networks() -> None:
    cells = table({"a": 0.1, "b": 0.5, "c": 0.9})
    cells = {key: replace(cell, network="trained" if key[0] == "c" else "authors") for key, cell in cells.items()}
    claims = [Claim("b", "rises", ["a", "b"], ("x",)), Claim("c", "rises", ["b", "c"], ("x",))]
    assert [verdict.network for verdict in judge_claims(claims, cells, lambda a, b: 0.0)] == ["authors", "trained"]


def test_stand_ins_are_asked_nothing() -> None:
    """A small network on digits is none of those that a sentence names, whatever its numbers are."""
    cells = table({"a": 0.1, "b": 0.5, "c": 0.9})
    claims = [Claim("b", "rises", ["a", "b"], ("x",)), Claim("c", "rises", ["b", "c"], ("x",))]
    assert judge_claims(claims, cells, lambda a, b: 0.0) == []
    cells = {key: replace(cell, network="stand-ins" if key[0] == "c" else "real") for key, cell in cells.items()}
    assert [verdict.text for verdict in judge_claims(claims, cells, lambda a, b: 0.0)] == ["b"]


def test_rows_that_have_no_such_number_are_not_missing() -> None:
    cells = table({"a": 0.5, "b": 0.6}) | {("c", "x"): Cell("c", "x", None, why=UNASKED)}
    assert outcome(Claim("at least", "at_least", 0.4, ("x",)), cells) == HOLDS
    named = Claim("at least", "at_least", 0.4, ("x",), rows=("a", "c"))
    assert outcome(named, cells) == NOT_SHOWN


@pytest.mark.parametrize(("profile", "expected"), [("full", TRAINED), ("small", STAND_IN), ("real", REAL)])
def test_a_checkpoint_is_of_the_network_whose_training_left_it(profile: str, expected: str) -> None:
    cells = table_of(read("contrastive-fig3", profile), {"main": "not run"}, {}, {})
    assert {cell.network for cell in cells.values()} == {expected}
