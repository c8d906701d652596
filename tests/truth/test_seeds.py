"""Means over seeds, and differences of two methods: against what is known of each level alone, and by simulation."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.seeds import difference_over_seeds, mean_over_seeds


def score(value: float, reach: float = 0.1, n: int = 100) -> Score:
    return Score(value, value - reach, value + reach, n, "t")


def ends(found: Score) -> tuple[float | None, float | None]:
    return found.low, found.high


def test_seeds_that_agree_leave_the_interval_over_images_and_say_so() -> None:
    one = mean_over_seeds([score(0.5)] * 4, np.ones((4, 4)))
    assert ends(one) == pytest.approx((0.4, 0.6))
    assert "over images alone" in one.note
    apart = mean_over_seeds([score(0.5)] * 4, np.eye(4))  # four images' worth of each
    assert ends(apart) == pytest.approx((0.45, 0.55))


def test_images_that_tell_everything_leave_students_interval_over_seeds() -> None:
    values = [0.2, 0.5, 0.6, 0.9]
    found = mean_over_seeds([score(v, 1e-9) for v in values], np.eye(4))
    assert ends(found) == pytest.approx(stats.t.interval(0.95, 3, np.mean(values), stats.sem(values)))
    others = [0.8, 0.9, 1.4]
    gap, p = difference_over_seeds(*([score(v, 1e-9) for v in each] for each in (values, others)), np.eye(7))
    welch = stats.ttest_ind(values, others, equal_var=False)
    assert ends(gap) == pytest.approx(tuple(welch.confidence_interval()))
    assert p == pytest.approx(welch.pvalue, rel=0.01)


def test_a_difference_is_paired_over_images_and_not_over_seeds() -> None:
    first, second = ([score(v + shift) for v in (0.4, 0.5, 0.6)] for shift in (0.0, 0.2))
    paired, _ = difference_over_seeds(first, second, np.ones((6, 6)))
    apart, _ = difference_over_seeds(first, second, np.kron(np.eye(2), np.ones((3, 3))))
    by_seeds = stats.t.isf(0.025, 4) * math.sqrt(2 * 0.01 / 3)
    assert apart.high - apart.value == pytest.approx(math.hypot(by_seeds, math.sqrt(2) * 0.1))
    assert paired.high - paired.value == pytest.approx(math.hypot(by_seeds, math.sqrt(2 / 100) * 0.1))


def test_one_end_of_a_difference_is_made_of_the_ends_that_point_there() -> None:
    low, high = (Score(0.5, 0.5 - a, 0.5 + b, 100, "t") for a, b in ((0.1, 0.3), (0.3, 0.1)))
    gap, p = difference_over_seeds([low] * 2, [high] * 2, np.kron(np.eye(2), np.ones((2, 2))))
    assert ends(gap) == pytest.approx((-math.hypot(0.1, 0.1), math.hypot(0.3, 0.3)))
    assert p == 1.0


def test_intervals_of_a_later_look_are_wider_over_seeds() -> None:
    values = [score(v, 1e-9) for v in (0.2, 0.5, 0.6, 0.9)]
    with looking(2):
        found = mean_over_seeds(values, np.eye(4))
    assert found.high - found.value == pytest.approx(
        stats.t.isf(0.05 / 12, 3) * stats.sem([0.2, 0.5, 0.6, 0.9]), rel=1e-6
    )


@pytest.mark.parametrize("value", [None, math.inf])
def test_a_seed_without_a_number_leaves_none(value: float | None) -> None:
    found, p = difference_over_seeds([score(0.1)] * 2, [score(0.2), Score(value, None, None, 9, "t")], np.eye(4))
    assert (found.value, found.low, p) == (None, None, None)
    assert "1 of 4 seeds have no number" in found.note
    found = mean_over_seeds([score(0.2), Score(0.4, None, None, 9, "t")], np.eye(2))
    assert (found.value, found.low) == (pytest.approx(0.3), None)


@pytest.mark.parametrize(
    ("seeds", "spread", "runs"),
    [(3, 1.0, 150), *(pytest.param(k, s, 800, marks=pytest.mark.slow) for k in (3, 5, 10) for s in (0, 0.3, 1, 3))],
)
def test_intervals_hold_the_truth_over_images_and_seeds(seeds: int, spread: float, runs: int) -> None:
    random, images = np.random.default_rng(3), 60
    image, method, both = (math.sqrt(share) for share in (0.4, 0.2, 0.4))
    seed = spread * math.sqrt(0.6 / images * seeds + 0.4 / images)
    held = told = alone = 0
    for _ in range(runs):
        easy = image * random.standard_normal(images)
        values = np.concatenate([
            easy
            + method * random.standard_normal(images)
            + seed * random.standard_normal((seeds, 1))
            + both * random.standard_normal((seeds, images))
            for _ in range(2)
        ])  # fmt: skip
        scores = [statistics.mean(torch.from_numpy(row)) for row in values]
        rho = np.corrcoef(values)
        mean = mean_over_seeds(scores[:seeds], rho[:seeds, :seeds])
        gap, p = difference_over_seeds(scores[:seeds], scores[seeds:], rho)
        held += mean.low <= 0 <= mean.high
        told += p <= 0.05
        assert (p <= 0.05) == (not gap.low <= 0 <= gap.high)  # one statement, made twice
        alone += scores[0].low <= 0 <= scores[0].high
    assert held >= stats.binom.ppf(0.001, runs, 0.94)
    assert told <= stats.binom.ppf(0.999, runs, 0.06)
    if spread >= 1:  # a single seed's interval, which knows of images alone, does not
        assert alone < stats.binom.ppf(0.01, runs, 0.94)
