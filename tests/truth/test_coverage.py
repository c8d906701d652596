"""Intervals contain the truth, and equal encoders are told apart, as often as they promise: by simulation."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from holdfast.numerics import statistics

RUNS = pytest.mark.parametrize("runs", [250, pytest.param(2000, marks=pytest.mark.slow)])
"""Samples of a simulation. At least 228 of 250 must hold the truth, as a level of 0.87 would do in 2.5 % of cases; long
runs ask for 1,871 of 2,000, as a level of 0.92 would in 0.4 %."""


def error(runs: int) -> float:
    """Three standard deviations of a simulated level."""
    return 3 * math.sqrt(0.05 * 0.95 / runs)


def covered(scores, truth: float) -> float:
    """The share of intervals that contain the truth; an end that does not exist is infinitely far."""
    inside = [(s.low is None or s.low <= truth) and (s.high is None or truth <= s.high) for s in scores]
    return sum(inside) / len(inside)


@RUNS
@pytest.mark.parametrize("n", [7, 100])
def test_median_of_independent_rows(n, runs) -> None:
    random = torch.Generator().manual_seed(n)
    samples = torch.rand(runs, n, generator=random).square()  # skewed; the median is 1/4
    assert covered(map(statistics.median, samples), 0.25) >= 0.95 - error(runs)


@RUNS
@pytest.mark.parametrize("together", [0.0, 0.98])
def test_median_of_correlated_pairs(together, runs) -> None:
    random = torch.Generator().manual_seed(1)
    pairs, units = 200, torch.arange(200).repeat_interleave(2)
    common = torch.randn(runs, pairs, 1, generator=random)
    own = torch.randn(runs, pairs, 2, generator=random)
    samples = (math.sqrt(together) * common + math.sqrt(1 - together) * own).flatten(1)
    assert covered((statistics.median(s, units) for s in samples), 0.0) >= 0.95 - error(runs)


@RUNS
@pytest.mark.parametrize("p", [0.5, 0.1])
def test_share_of_correlated_pairs(p, runs) -> None:
    random = torch.Generator().manual_seed(2)
    units = torch.arange(60).repeat_interleave(2)
    common, own = torch.randn(runs, 60, 1, generator=random), torch.randn(runs, 60, 2, generator=random)
    samples = (math.sqrt(0.98) * common + math.sqrt(0.02) * own < stats.norm.ppf(p)).double().flatten(1)
    assert covered((statistics.share(s, units) for s in samples), p) >= 0.95 - error(runs)
    if p == 0.5:  # what the effective size is for
        assert covered(map(statistics.share, samples), p) < 0.9


def events(p: float, attacked: int, population: int, strength: Tensor, random: torch.Generator):
    """Rows and columns of e_ij = 1[ a u_i + b v_j + c w_ij > z ] with P[e_ij] = p and correlated roles (u, v)."""
    u, w = torch.randn(population, generator=random), torch.randn(attacked, population, generator=random)
    v = 0.5 * u + math.sqrt(0.75) * torch.randn(population, generator=random)
    level = stats.norm.isf(p) * float(strength.norm())
    hits = (strength[0] * u[:attacked, None] + strength[1] * v + strength[2] * w > level).double()
    hits[torch.arange(attacked), torch.arange(attacked)] = 0
    rows = torch.full((population,), math.nan, dtype=torch.float64)
    rows[:attacked] = hits.sum(1) / (population - 1)
    others = torch.full((population,), float(attacked), dtype=torch.float64)
    others[:attacked] -= 1
    return rows, hits.sum(0) / others


@pytest.mark.sweep(2)
@RUNS
@pytest.mark.parametrize(
    ("p", "attacked", "population"),
    [(0.05, 60, 150), *(pytest.param(p, n, n, marks=pytest.mark.slow) for p, n in ((0.3, 50), (0.05, 50), (0.01, 60)))],
)
@pytest.mark.parametrize("strength", [(1, 1, 1), (0, 0, 1)], ids=["image effects", "independent pairs"])
def test_mean_over_pairs(p, attacked, population, strength, runs) -> None:
    random = torch.Generator().manual_seed(3)
    samples = (events(p, attacked, population, torch.tensor(strength).float(), random) for _ in range(runs))
    scores = [statistics.pair_mean(*sample) for sample in samples]
    assert covered(scores, p) >= 0.95 - error(runs)


def median(sample: Tensor):
    return statistics.median(sample), statistics.influence_of_median(sample)


def often(sample: Tensor):
    hits = (sample > 0).double()
    return statistics.share(hits), statistics.influence_of_mean(hits)


def seldom(sample: Tensor):
    hits = (sample > 1.5).double()
    return statistics.share(hits), statistics.influence_of_mean(hits)


@pytest.mark.sweep(3)
@RUNS
@pytest.mark.parametrize("judge", [median, often, seldom])
@pytest.mark.parametrize("noise", [0.001, 0.05, 1.0])
def test_equal_encoders_are_seldom_told_apart(judge, noise, runs) -> None:
    """Two encoders of equal robustness that agree on most images (little noise) or on few."""
    random, n = torch.Generator().manual_seed(4), 100
    told_apart, paired, unpaired = 0, 0.0, 0.0
    for _ in range(runs):
        common, own = torch.randn(n, generator=random), noise * torch.randn(2, n, generator=random)
        (a, of_a), (b, of_b) = judge(common + own[0]), judge(common + own[1])
        gap = statistics.difference(a, b, statistics.correlation(of_a, of_b))
        wide = statistics.difference(a, b, 0.0)
        assert gap.low < gap.high
        told_apart += gap.low > 0 or gap.high < 0
        paired, unpaired = paired + gap.high - gap.low, unpaired + wide.high - wide.low
    assert told_apart / runs <= 0.05 + error(runs)
    assert paired < unpaired


def test_a_difference_that_exists_is_found() -> None:
    """Pairing finds a small difference that unpaired intervals cannot see."""
    random, paired, unpaired = torch.Generator().manual_seed(5), 0, 0
    for _ in range(200):
        common, own = torch.randn(200, generator=random), 0.1 * torch.randn(2, 200, generator=random)
        (a, of_a), (b, of_b) = median(common + own[0]), median(common + own[1] + 0.2)
        gap, wide = (statistics.difference(a, b, rho) for rho in (statistics.correlation(of_a, of_b), 0.0))
        paired, unpaired = paired + (gap.high < 0), unpaired + (wide.high < 0)
    assert paired > 180
    assert unpaired < 100
