"""Every measure's interval holds the truth, and equal encoders are told apart, as often as it promises; none has zero
width."""

import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks import coverage, laws

from holdfast.core import Score, registry
from holdfast.numerics import statistics
from holdfast.numerics.statistics import universal
from holdfast.numerics.statistics.drawn_pairs import contributions, mean
from holdfast.parts.divergences.l2 import L2

NAMES = registry.names("measures")


def test_every_measure_has_a_law() -> None:
    assert sorted(laws.LAWS) == sorted(NAMES)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("images", [2, 16])
@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("synbench", "margin_distribution")])
def test_equal_values_give_no_interval_of_zero_width(name, images) -> None:
    """Tables in which every image is like the first one: each score has a width, or says why there is none."""
    measure = laws.measure(name)
    world = laws.World(16, True, torch.Generator().manual_seed(1))
    for table in laws.tables(measure, name, world):
        same = {column: values[:1].expand(images).clone() for column, values in table.items()}
        if "pair" in same:
            same["pair"] = torch.arange(images)
        for title, score in measure.score(same).items():
            if score.low is None or score.high is None:
                assert score.note or score.interval.startswith("none"), title
            else:
                assert score.low < score.high, title


def test_a_score_cannot_hold_an_interval_of_zero_width() -> None:
    score = Score(0.3, 0.3, 0.3, 5, "any", note="first")
    assert (score.low, score.high) == (None, None)
    assert score.note.startswith("first; ")
    assert Score(0.3, 0.3 - 1e-15, 0.3, 5, "any").low is None
    assert Score(0.0, 0.0, 1e-300, 5, "any").high == 1e-300


def test_medians_of_ties_end_at_the_nearest_values_that_differ() -> None:
    values = torch.tensor([0.1, *[0.5] * 40, 0.9, 0.95])
    score = statistics.median(values.double())
    assert (score.low, score.value, score.high) == (pytest.approx(0.1), 0.5, pytest.approx(0.9))
    assert statistics.median(torch.full((40,), 0.5)).low is None


def test_no_pair_below_the_drift_leaves_what_pairs_may_have_missed() -> None:
    """24 images and no drift as long as a distance: half of all pairs count as independent."""
    none = torch.zeros(24, dtype=torch.float64)
    score = universal.median(none, none)
    assert (score.value, score.low) == (0, 0)
    assert score.high == pytest.approx(1 - 0.025 ** (1 / (24 * 23 / 4)))


def test_contributions_are_those_of_removing_an_image() -> None:
    """The derivative of the mean by an image's weight, in both of its roles, by finite differences."""
    random = torch.Generator().manual_seed(0)
    values = torch.rand(7, 3, generator=random, dtype=torch.float64)
    negatives = torch.stack([torch.randperm(9, generator=random)[:3] for _ in range(7)])
    parts = contributions(values, negatives, 9)
    assert float(parts.mean()) == pytest.approx(float(values.mean()))
    for image in range(9):
        weight = torch.ones(9, dtype=torch.float64)
        weight[image] += 1e-6
        pairs = weight[:7, None] * weight[negatives]
        slope = (float((pairs * values).sum() / pairs.sum()) - float(values.mean())) / 1e-6
        assert float(parts[image] - values.mean()) == pytest.approx(9 * slope, abs=1e-5)
    assert mean(values.mean(1), parts).n == 7


PAIRS = [(40, 40, 1.6), (300, 300, 1.6), (40, 40, 0.35), (60, 60, 1.6), (256, 64, 1.6), (500, 500, 0.35)]
"""Images, how many of them are attacked, and how far the attack moves the median image."""


def universal_quantiles(images: int, attacked: int, drift: float, runs: int) -> tuple[float, float]:
    """Return coverage and false differences of universal quantiles, of encoders equal in law."""
    random = torch.Generator().manual_seed(images)
    strong = drift < 1

    def placed(size: int, some: int):
        world = laws.World(size, strong, random)
        for k in range(2):
            quantiles, near, _ = universal.place(world.clean[k], world.drifts[k, None, :some], L2())
            yield universal.median(quantiles[0], near[0]), universal.influence(quantiles[0], near[0])

    size, times = (1000, 10) if runs > 100 else (500, 4)
    truth = sum(score.value for _ in range(times) for score, _ in placed(size, size)) / (2 * times)
    held, apart = 0, 0
    for _ in range(runs):
        (first, of_first), (second, of_second) = placed(images, attacked)
        gap = statistics.difference(first, second, statistics.correlation(of_first, of_second))
        held += sum(score.low <= truth <= score.high for score in (first, second))
        apart += gap.low > 0 or gap.high < 0
    return held / (2 * runs), apart / runs


def slack(runs: int) -> float:
    """Two and a half standard deviations of a share simulated so often."""
    return 2.5 * math.sqrt(0.05 * 0.95 / runs)


def test_universal_quantiles_hold_for_other_pairs() -> None:
    """A sample of the slow test; without the pairs' error far fewer hold, and far more are told apart."""
    for images, drift in ((60, 1.6), (60, 0.35)):
        held, apart = universal_quantiles(images, images, drift, 50)
        assert held >= 0.94 - slack(100)
        assert apart <= 0.06 + slack(50)


@pytest.mark.slow(minutes=20)
@pytest.mark.parametrize(("images", "attacked", "drift"), PAIRS)
def test_universal_quantiles_hold_at_every_size(images, attacked, drift) -> None:
    held, apart = universal_quantiles(images, attacked, drift, 1000)
    assert held >= 0.94 - slack(2000)
    assert apart <= 0.06 + slack(1000)


@pytest.mark.slow(minutes=20)
@pytest.mark.parametrize("name", [*NAMES, *laws.SAMPLED])
def test_intervals_hold_the_truth(name) -> None:
    for size, strength in coverage.SETTINGS:
        cell = coverage.simulate(name, size, strength, 1000)
        if math.isnan(cell.covered):
            assert name == "margin_distribution", "no interval at all"
            continue
        assert cell.covered >= 0.94 - slack(1000), (size, strength, cell)
        assert cell.false <= 0.06 + slack(1000), (size, strength, cell)
