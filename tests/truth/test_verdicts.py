"""Verdicts of comparisons: equal encoders are told apart as seldom as promised, ranks hold the true ones."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.auditing.differences import Pair, beats, best_of, compare_pairs, decide
from holdfast.comparison.pareto import find_dominators
from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.levels import ALPHAS, p_value, reach
from holdfast.numerics.statistics.multiple_testing import adjust_p_values
from holdfast.numerics.statistics.ranks import rank_intervals
from holdfast.runtime.errors import UnknownName

RUNS = 400


def at_most(found: int, runs: int, level: float = 0.05) -> bool:
    """Whether so many errors are what a test of this level makes, in all but 1 of 1,000 simulations."""
    return found <= stats.binom.ppf(0.999, runs, level)


def two(kind: str, own: float, random: torch.Generator, n: int = 100) -> list[torch.Tensor]:
    """Per-image values of two encoders of one law, which share what 1 - own says of their noise."""
    common, noise = torch.randn(n, generator=random), torch.randn(2, n, generator=random)
    values = math.sqrt(1 - own) * common + math.sqrt(own) * noise
    if kind == "rare share":
        return list((values > 1.6).double())
    if kind == "share":
        return list((values > 0.3).double())
    return list(values.double().exp() if kind == "mean" else values.double())


SCORES = {
    "share": (statistics.share, statistics.influence_of_mean),
    "rare share": (statistics.share, statistics.influence_of_mean),
    "median": (statistics.median, statistics.influence_of_median),
    "mean": (statistics.mean, statistics.influence_of_mean),
}


def compared(kind: str, tables: list[torch.Tensor]):
    """Pairs with their p-values, as a comparison makes them."""
    score, influence = SCORES[kind]
    found = {str(i): (influence(values), score(values)) for i, values in enumerate(tables)}
    for pair in compare_pairs(found, "lower"):
        yield pair, pair.p


@pytest.mark.parametrize("own", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k == "mean")) for k in SCORES])
def test_two_equal_encoders_are_told_apart_in_at_most_5_percent_of_runs(kind: str, own: float) -> None:
    random = torch.Generator().manual_seed(7)
    flagged = deep = 0
    for _ in range(RUNS):
        [(pair, p)] = compared(kind, two(kind, own, random))
        low, high = pair.gap.low, pair.gap.high
        assert (p <= 0.05) == (not low <= 0 <= high)  # one statement, made twice
        flagged, deep = flagged + (p <= 0.05), deep + (p <= 0.005)
    assert at_most(flagged, RUNS)
    assert at_most(deep, RUNS, 0.005)  # the tails, which a correction for many comparisons relies on


@pytest.mark.slow
@pytest.mark.parametrize("own", [0.3, 1.0])
def test_a_family_of_equal_encoders_and_measures_is_wrong_in_at_most_5_percent_of_runs(own: float) -> None:
    random = torch.Generator().manual_seed(8)
    runs, wrong, uncorrected = 400, 0, 0
    for _ in range(runs):
        p = []
        for kind in ("share", "rare share", "median"):
            common, noise = torch.randn(60, generator=random), torch.randn(5, 60, generator=random)
            values = (math.sqrt(1 - own) * common + math.sqrt(own) * noise).double()
            tables = {"share": (values > 0.3).double(), "rare share": (values > 1.3).double(), "median": values}[kind]
            p += [value for _, value in compared(kind, list(tables))]
        assert len(p) == 30
        wrong += min(adjust_p_values(p, "holm")) <= 0.05
        uncorrected += min(adjust_p_values(p, "none")) <= 0.05
    assert at_most(wrong, runs)
    assert uncorrected > 0.15 * runs  # what the correction is for: without it this test fails


def test_with_a_real_difference_the_paired_interval_is_the_shorter_one_and_finds_it() -> None:
    random = torch.Generator().manual_seed(9)
    shorter = found = 0
    for _ in range(100):
        better, worse = two("share", 0.1, random, 200)
        worse = worse * (torch.rand(200, generator=random) > 0.15)  # loses 15 % of what it had
        [(pair, p)] = compared("share", [better, worse])
        unpaired = statistics.difference(statistics.share(better), statistics.share(worse), 0.0)
        shorter += pair.gap.high - pair.gap.low < unpaired.high - unpaired.low
        found += p <= 0.05
        assert p > 0.05 or pair.gap.value > 0
    assert shorter == 100
    assert found > 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["share", "mean"])
def test_ranks_hold_all_true_ranks_at_once(kind: str) -> None:
    random = torch.Generator().manual_seed(10)
    runs, missed, decided = 200, 0, 0
    truth = {"0": 1, "1": 1, "2": 1, "3": 4, "4": 5, "5": 6}  # three equal best ones: each may be any of 1 to 3
    shifts = torch.tensor([0.6, 0.6, 0.6, 0.3, 0.0, -0.9], dtype=torch.float64)
    for _ in range(runs):
        common, noise = torch.randn(120, generator=random), torch.randn(6, 120, generator=random)
        values = (0.8 * common + 0.6 * noise).double() + shifts[:, None]
        tables = list((values > 0.2).double() if kind == "share" else values.exp())
        pairs = list(compared(kind, tables))
        q = adjust_p_values([p for _, p in pairs], "holm")
        wins = [
            (pair.first, pair.second) if pair.gap.value > 0 else (pair.second, pair.first)
            for (pair, _), value in zip(pairs, q, strict=True)
            if value <= 0.05
        ]
        ranks = rank_intervals(beats(truth, wins))
        ends = {name: (place, 3 if place == 1 else place) for name, place in truth.items()}
        missed += any(ranks[name][0] > first or ranks[name][1] < last for name, (first, last) in ends.items())
        decided += ranks["5"] == (6, 6)
    assert at_most(missed, runs)
    assert decided > 0.5 * runs


@pytest.mark.parametrize(("hits", "n"), [(0, 50), (3, 80), (40, 80), (79, 80)])
def test_a_share_at_another_level_is_the_interval_of_that_level(hits: int, n: int) -> None:
    values = torch.zeros(n, dtype=torch.float64)
    values[:hits] = 1
    score = statistics.share(values)
    found = reach(score)
    for level in (0.9, 0.999, 0.99999):
        exact = statistics.share(values, confidence=level)
        at = int(np.abs(ALPHAS - (1 - level)).argmin())
        nearest = statistics.share(values, confidence=1 - ALPHAS[at])
        assert score.value - found.below[at] == pytest.approx(nearest.low, abs=1e-9)
        assert score.value + found.above[at] == pytest.approx(nearest.high, abs=1e-9)
        assert exact.low == pytest.approx(nearest.low, abs=0.02)


def test_a_mean_at_another_level_reaches_as_students_t() -> None:
    values = torch.randn(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.cat([values, -values])  # without skewness both of its ends are Student's
    score, at = statistics.mean(values), int(np.abs(ALPHAS - 0.001).argmin())
    wide = statistics.mean(values, confidence=1 - ALPHAS[at])
    assert reach(score).above[at] == pytest.approx(wide.high - wide.value, rel=1e-9)


def test_a_limit_without_exception_moves_as_its_formula() -> None:
    score = statistics.mean(torch.full((20,), 0.4, dtype=torch.float64), most=1.0)
    at = int(np.abs(ALPHAS - 0.001).argmin())
    wide = statistics.mean(torch.full((20,), 0.4, dtype=torch.float64), most=1.0, confidence=1 - ALPHAS[at])
    assert score.interval.startswith("exact limit")
    assert reach(score).above[at] == pytest.approx(wide.high - wide.value, rel=1e-9)


def test_without_an_interval_there_is_no_reach() -> None:
    assert reach(Score(0.5, None, None, 3, "order statistics")) is None
    assert reach(Score(None, None, None, 0, "order statistics")) is None


def test_equal_scores_are_never_different() -> None:
    same = reach(Score(0.0, 0.0, 0.1, 40, "exact binomial"))
    assert p_value(0.0, same, same, 1.0, 40) == 1.0


@pytest.mark.parametrize("m", [1, 2, 9])
def test_corrections_against_their_definitions(m: int) -> None:
    p = (np.random.default_rng(m).random(m) ** 3).tolist()
    order = sorted(range(m), key=lambda i: p[i])
    holm = {i: max(min(1, (m - j) * p[order[j]]) for j in range(place + 1)) for place, i in enumerate(order)}
    bh = {i: min(min(1, m * p[order[j]] / (j + 1)) for j in range(place, m)) for place, i in enumerate(order)}
    assert adjust_p_values(p, "holm") == pytest.approx([holm[i] for i in range(m)])
    assert adjust_p_values(p, "bh") == pytest.approx([bh[i] for i in range(m)])
    assert adjust_p_values(p, "none") == pytest.approx(p)


def test_corrections_of_nothing_and_unknown_ones() -> None:
    assert adjust_p_values([], "holm") == []
    with pytest.raises(UnknownName, match=r"'holm'\?"):
        adjust_p_values([0.1], "hollm")


def test_ranks_by_hand() -> None:
    beaten = beats("abcd", [("a", "c"), ("a", "d"), ("b", "d")])
    assert rank_intervals(beaten) == {"a": (1, 2), "b": (1, 3), "c": (2, 4), "d": (3, 4)}
    assert best_of(beaten) is None
    assert best_of(beats("ab", [("a", "b")])) == "a"
    assert best_of(beats("a", [])) is None


def test_the_front_loses_only_those_that_are_worse_on_both() -> None:
    everyone = "abc"
    x = beats(everyone, [("a", "b"), ("a", "c"), ("b", "c")])
    y = beats(everyone, [("a", "c"), ("c", "b")])
    assert find_dominators(x, y) == {"a": [], "b": [], "c": ["a"]}
    assert find_dominators(x, {"a": set(), "b": set()}) == {"a": [], "b": []}


def test_ranks_of_no_verdicts_are_all_places() -> None:
    names = [str(i) for i in range(5)]
    assert set(rank_intervals(beats(names, [])).values()) == {(1, 5)}
    full = beats(names, itertools.combinations(names, 2))
    assert list(rank_intervals(full).values()) == [(i, i) for i in range(1, 6)]


@pytest.mark.parametrize(("gap", "p", "winners"), [(0.2, 0.01, "ab"), (-0.2, 0.01, "ba"), (0.2, 0.06, None)])
def test_who_wins_depends_on_what_is_better(gap: float, p: float, winners: str | None) -> None:
    pair = Pair("a", "b", Score(gap, gap - 0.1, gap + 0.1, 9, "paired"), p)
    found = [decide({"m": (better, [pair])})["m"][0].winner for better in ("higher", "lower")]
    assert found == (list(winners) if winners else [None, None])


def test_all_measures_are_one_family_and_what_has_no_interval_is_undecided() -> None:
    gap = Score(0.5, 0.4, 0.6, 9, "paired")
    told, open_ = Pair("a", "b", gap, 0.02), Pair("a", "b", Score(0.5, None, None, 9, "paired"), None)
    assert decide({"m": ("higher", [told])})["m"][0].winner == "a"
    found = decide({"m": ("higher", [told]), "n": ("higher", [open_, open_])})
    assert [(pair.p_adjusted, pair.winner) for pairs in found.values() for pair in pairs] == [
        (pytest.approx(0.06), None), (None, None), (None, None),
    ]  # fmt: skip
    assert decide({"m": ("higher", [told]), "n": ("higher", [open_])}, "none")["m"][0].winner == "a"
