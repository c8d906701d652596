"""Ratios of paired scores: known ends, coverage by simulation, and what cannot be said where nothing is left."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.core import Score
from holdfast.numerics import statistics
from holdfast.numerics.statistics import ratios
from holdfast.numerics.statistics.statistic import Mean
from holdfast.runtime.errors import BadValue


def score(value, low, high, n=100) -> Score:
    return Score(value, low, high, n, "by hand")


def paired(first: torch.Tensor, second: torch.Tensor, compare=ratios.ratio) -> Score:
    """Compare the shares of two 0/1 columns about the same images."""
    influences = (statistics.influence_of_mean(column) for column in (first, second))
    return compare(statistics.share(first), statistics.share(second), statistics.correlation(*influences))


def images(random: np.random.Generator, shape: tuple[int, int], rates: tuple[float, float], bound: float):
    """Correctness under a corruption and without: a Gaussian copula whose correlation is `bound`."""
    common = random.normal(size=shape)
    noisy = (bound * common + math.sqrt(1 - bound**2) * random.normal(size=shape) for _ in rates)
    return (torch.from_numpy((z < stats.norm.ppf(rate)).astype(float)) for z, rate in zip(noisy, rates, strict=True))


@pytest.mark.sweep(4)
@pytest.mark.parametrize("runs", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [40, 200])
@pytest.mark.parametrize("rates", [(0.9, 0.95), (0.5, 0.9), (0.1, 0.5), (0.02, 0.9)], ids=str)
@pytest.mark.parametrize("bound", [0.0, 0.9])
def test_the_truth_is_inside_as_often_as_promised(n: int, rates, bound: float, runs: int) -> None:
    """At least 181 of 200, as a level of 0.85 would do in 1.5 % of cases; 930 of 1,000, as 0.91 would in 1.3 %."""
    columns = images(np.random.default_rng(n), (runs, n), rates, bound)
    found = [paired(first, second) for first, second in zip(*columns, strict=True)]
    inside = np.mean([s.low <= rates[0] / rates[1] <= s.high for s in found])
    assert inside >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)


def test_pairing_makes_it_narrower() -> None:
    first, second = images(np.random.default_rng(0), (1, 500), (0.7, 0.9), 0.95)
    close = paired(first[0], second[0])
    apart = ratios.ratio(statistics.share(first[0]), statistics.share(second[0]), 0.0)
    assert close.value == apart.value
    assert close.high - close.low < 0.8 * (apart.high - apart.low)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.8])
def test_symmetric_intervals_give_fiellers(rho: float) -> None:
    """The roots of (θ₁ - Rθ₂)² = t² (s₁² + R² s₂² - 2 R ρ s₁ s₂), solved by numpy."""
    (x, s), (y, r) = (0.6, 0.07), (0.8, 0.05)
    found = ratios.ratio(score(x, x - s, x + s), score(y, y - r, y + r), rho)
    roots = np.roots([y**2 - r**2, -2 * (x * y - rho * s * r), x**2 - s**2])
    assert (found.low, found.high) == pytest.approx(tuple(sorted(roots.real)))


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.7])
@pytest.mark.parametrize(
    ("first", "second"), [((0.3, 0.1, 0.35), (0.5, 0.2, 0.95)), ((0.02, 0.0, 0.2), (0.1, 0.01, 0.4))]
)
def test_an_end_is_where_the_difference_may_be_zero(first, second, rho: float) -> None:
    """By definition: at R = L the interval of θ₁ - R θ₂ ends at 0 from above, at R = U from below."""
    found = ratios.ratio(score(*first), score(*second), rho)
    below, above = (
        statistics.difference(score(*first), score(*(end * x for x in second)), rho) for end in (found.low, found.high)
    )
    assert found.low <= found.value <= found.high
    assert above.high == pytest.approx(0, abs=1e-12)
    if first[1] > 0:
        assert below.low == pytest.approx(0, abs=1e-12)
    else:
        assert found.low == 0


def test_a_published_drop() -> None:
    """89.53 -> 87.36 is Δ 2.4 % (what-the-papers-leave-open, section 4)."""
    drop = ratios.relative_drop(score(0.8736, 0.867, 0.880), score(0.8953, 0.889, 0.901), 0.8)
    assert round(100 * drop.value, 1) == 2.4
    assert drop.low < drop.value < drop.high


def test_a_gain_is_a_drop_below_zero() -> None:
    assert ratios.relative_drop(score(0.6, 0.5, 0.7), score(0.5, 0.4, 0.6), 0.0).value == pytest.approx(-0.2)


def test_both_perfect_has_an_interval_all_the_same() -> None:
    drop = paired(torch.ones(50), torch.ones(50), ratios.relative_drop)
    least = statistics.share(torch.ones(50)).low
    assert drop.value == 0
    assert (drop.low, drop.high) == pytest.approx((1 - 1 / least, 1 - least))


def test_equal_columns_have_an_interval_all_the_same() -> None:
    """Where no image tells the two apart the correlation is 1; the interval must not vanish, nor at a half."""
    column = (torch.arange(50) < 25).double()
    drop = paired(column, column, ratios.relative_drop)
    assert drop.value == 0
    assert drop.low < -0.005
    assert drop.high > 0.005


def test_all_lost_is_one_with_an_interval() -> None:
    drop = paired(torch.zeros(50), (torch.arange(50) < 40).double(), ratios.relative_drop)
    assert (drop.value, drop.high) == (1, 1)
    assert 0.85 < drop.low < 1 - statistics.share(torch.zeros(50)).high


def test_nothing_to_compare_with() -> None:
    zeros, some = torch.zeros(30), (torch.arange(30) < 20).double()
    for first in (zeros, some):
        drop = paired(first, zeros, ratios.relative_drop)
        assert (drop.value, drop.low, drop.high) == (None, None, None)
        assert "cannot be told from 0" in drop.note
    assert ratios.ratio(score(0.5, 0.4, 0.6), score(0.1, 0.0, 0.3), 0.5).value is None


def test_what_is_missing_is_said() -> None:
    known = score(0.5, 0.4, 0.6)
    none = ratios.relative_drop(known, score(None, None, None), 0.0)
    assert (none.value, none.note) == (None, "one of the two scores is undefined")
    bare = ratios.relative_drop(score(0.4, None, None), known, 0.0)
    assert (bare.value, bare.low, bare.high) == (pytest.approx(0.2), None, None)
    assert "no interval" in bare.note


@pytest.mark.parametrize("second", [(0.1, -0.1, 0.3), (-0.1, None, None)])
def test_signed_scores_are_refused(second) -> None:
    known = score(0.5, 0.4, 0.6)
    for pair in ((known, score(*second)), (score(*second), known)):
        with pytest.raises(BadValue, match="ratio"):
            ratios.ratio(*pair, 0.0)


def test_influence_is_the_derivative() -> None:
    """Of the ratio with respect to one image's weight, times the mean of the second column."""
    random = np.random.default_rng(3)
    first, second = (torch.from_numpy(random.random(20)) for _ in range(2))
    weights = torch.full((20,), 1 / 20, dtype=torch.float64, requires_grad=True)
    ((weights @ first) / (weights @ second)).backward()
    ratio = ratios.Ratio(Mean(first), Mean(second))
    torch.testing.assert_close(ratio.influence(), weights.grad * second.mean())
    torch.testing.assert_close(ratios.RelativeDrop(Mean(first), Mean(second)).influence(), -ratio.influence())
    assert ratios.Ratio(Mean(first), Mean(torch.zeros(20))).influence().tolist() == [0.0] * 20
