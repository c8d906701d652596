"""The mean over images and repetitions: coverage where both vary, known ends, and what one repetition cannot say."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.numerics import statistics
from holdfast.numerics.statistics.two_way import two_way_mean, two_way_share

RUNS = pytest.mark.parametrize("runs", [100, pytest.param(400, marks=pytest.mark.slow)])
"""Samples of a simulation. At least 89 of 100 must hold the truth, as a level of 0.8 would do in 1.3 % of cases; long
runs ask for 367 of 400, as a level of 0.88 would in 1 %."""


def error(runs: int) -> float:
    """Three standard deviations of a simulated level."""
    return 3 * math.sqrt(0.05 * 0.95 / runs)


def draw(
    runs: int, shape: tuple[int, int], images: float, repetitions: float, level: float
) -> tuple[torch.Tensor, float]:
    """Correct or not, by a probit model with both random effects, and the probability of being correct."""
    random = np.random.default_rng(shape[0])
    latent = level + random.normal(size=(runs, *shape))
    latent += images * random.normal(size=(runs, shape[0], 1)) + repetitions * random.normal(size=(runs, 1, shape[1]))
    return torch.from_numpy((latent > 0).astype(float)), stats.norm.cdf(level / math.hypot(1, images, repetitions))


@RUNS
@pytest.mark.parametrize("shape", [(20, 3), (100, 5), (100, 20)], ids=str)
@pytest.mark.parametrize(
    ("images", "repetitions", "level"),
    [(1, 0.2, 0), (0.1, 0.5, 0), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, 0, 2), (0, 0, 2.5)))],
    ids=str,
)
def test_the_truth_is_inside_as_often_as_promised(
    shape, images: float, repetitions: float, level: float, runs: int
) -> None:
    samples, truth = draw(runs, shape, images, repetitions, level)
    scores = [two_way_mean(values, most=1.0) for values in samples]
    assert np.mean([s.low <= truth <= s.high for s in scores]) >= 0.95 - error(runs)


@RUNS
def test_repetitions_must_count(runs: int) -> None:
    """What it is for: over images alone the truth of 0.95 is kept half of the time where repetitions differ."""
    samples, truth = draw(runs, (300, 5), 0.1, 0.3, 0)
    alone = [statistics.mean(values.mean(1)) for values in samples]
    assert np.mean([s.low <= truth <= s.high for s in alone]) < 0.6
    both = [two_way_mean(values) for values in samples]
    assert np.mean([s.low <= truth <= s.high for s in both]) >= 0.95 - error(runs)


def test_ends_by_hand() -> None:
    """Three times image means 1, 2, 3 (Student: skewness 0) and repetition means 1.5, 2.5."""
    values = torch.tensor([[0.5, 1.5], [1.5, 2.5], [2.5, 3.5]]).repeat(3, 1)
    found = two_way_mean(values)
    images = stats.t.ppf(0.975, 8) * math.sqrt(6 / 8) / math.sqrt(9)
    repetitions = stats.t.ppf(0.975, 1) * math.sqrt(0.5) / math.sqrt(2)
    assert (found.value, found.n) == (2, 9)
    assert found.high == pytest.approx(2 + math.hypot(images, repetitions))
    assert found.low == 0  # no value is below 0
    assert two_way_mean(values, most=4.0).high == 4


def test_repetitions_that_agree_leave_the_interval_over_images() -> None:
    column = torch.tensor([0.2, 0.5, 0.9, 0.4]).repeat(2)
    found, alone = two_way_mean(column[:, None].expand(8, 3)), statistics.mean(column)
    assert (found.value, found.low, found.high) == pytest.approx((alone.value, alone.low, alone.high))
    assert "all 3 repetitions have the same mean" in found.note


def test_no_failure_at_all_has_an_interval_all_the_same() -> None:
    found = two_way_mean(torch.ones(30, 4), most=1.0)
    assert (found.low, found.value, found.high) == (pytest.approx(0.025 ** (1 / 30)), 1, 1)
    assert two_way_mean(torch.ones(30, 4)).low is None


@pytest.mark.parametrize(("shape", "note"), [((9, 1), "one repetition"), ((1, 9), "one value has no interval")])
def test_one_of_a_kind_has_no_interval(shape, note) -> None:
    found = two_way_mean(torch.arange(9.0).reshape(shape))
    assert (found.value, found.low, found.high) == (4, None, None)
    assert note in found.note


def test_shares_by_hand() -> None:
    """Two repetitions of 80 and 70 hits of 100: half a hit more and half a miss, Student's t_1 of their log odds."""
    hits = torch.ones(10, 2).repeat(10, 1)
    hits[:20, 0] = hits[15:45, 1] = 0
    found = two_way_share(hits, of="trainings")
    alone = statistics.share(hits.flatten(), torch.arange(100).repeat_interleave(2))
    odds = np.log(np.array([80.5, 70.5, 75.5]) / np.array([20.5, 30.5, 25.5]))
    reach = stats.t.ppf(0.975, 1) * (odds[0] - odds[1]) / 2
    ends = [1 / (1 + math.exp(-(odds[2] + side * reach))) for side in (-1, 1)]
    assert found.value == pytest.approx(0.75)
    assert found.low == pytest.approx(0.75 - math.hypot(0.75 - alone.low, 75.5 / 101 - ends[0]))
    assert found.high == pytest.approx(0.75 + math.hypot(alone.high - 0.75, ends[1] - 75.5 / 101))
    assert found.n == 100
    assert "about other images and other trainings" in found.interval


def test_shares_that_tell_little() -> None:
    hits = torch.tensor([[1.0], [0.0], [1.0]])
    assert "one does not tell how trainings differ" in two_way_share(hits, of="trainings").note
    same = two_way_share(hits.expand(3, 4))
    alone = statistics.share(hits.expand(3, 4).flatten(), torch.arange(3).repeat_interleave(4))
    assert (same.low, same.high) == pytest.approx((alone.low, alone.high))
    assert "all 4 repetitions have the same share" in same.note
    holed = torch.cat([hits.expand(3, 4), torch.tensor([[1.0, math.nan, 0.0, 1.0]])])
    assert (two_way_share(holed).low, two_way_share(holed).value) == (same.low, same.value)
    assert two_way_share(torch.empty(0, 3)).value is None
    assert two_way_share(torch.ones(30, 3)).low == pytest.approx(0.025 ** (1 / 30))


@RUNS
@pytest.mark.parametrize(
    "shape",
    [(100, 2), (1000, 3), *(pytest.param((n, k), marks=pytest.mark.slow) for n in (100, 1000) for k in (5, 10))],
    ids=str,
)
@pytest.mark.parametrize(
    ("images", "repetitions", "level"),
    [
        (0, 0.4, 1.77),
        (1, 0.3, 0),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1.5, 0.1, 3), (0, 0, 2.3), (1, 0.4, -3), (0, 0.5, 0))
        ),
    ],
    ids=str,
)
def test_the_true_share_is_inside_as_often_as_promised(
    shape, images: float, repetitions: float, level: float, runs: int
) -> None:
    """Where few repetitions scatter to one side too, as those of a share of 0.95 do."""
    samples, truth = draw(runs, shape, images, repetitions, level)
    scores = [two_way_share(hits) for hits in samples]
    assert np.mean([s.low <= truth <= s.high for s in scores]) >= 0.95 - error(runs)


def test_undefined_images_are_left_out_and_counted() -> None:
    values = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    without = two_way_mean(values[1:])
    values[0, 2] = math.nan
    found = two_way_mean(values)
    assert (found.value, found.low, found.high) == pytest.approx((without.value, without.low, without.high))
    assert "1 of 6 rows are undefined" in found.note
    assert two_way_mean(torch.full((3, 2), math.nan)).value is None
