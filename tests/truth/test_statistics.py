"""Intervals with known ends: exact proportions, order statistics, effective sizes, differences."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from holdfast.core import Score
from holdfast.numerics import statistics

NAN = math.nan


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(data=st.data(), n=st.integers(1, 3000), confidence=st.sampled_from([0.5, 0.9, 0.95, 0.998]))
def test_clopper_pearson_is_scipys(data, n, confidence) -> None:
    k = data.draw(st.integers(0, n))
    exact = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    assert statistics.clopper_pearson(k, n, confidence) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize(("k", "n", "low"), [(99, 100, 0.9113731), (100, 100, 0.001**0.01)])
def test_one_sided_bounds_of_smoothing(k, n, low) -> None:
    """The lower end at confidence 0.998 is the one-sided bound at alpha = 0.001; P[X >= k] there is 0.001."""
    bound, _ = statistics.clopper_pearson(k, n, 0.998)
    assert bound == pytest.approx(low, abs=1e-6)
    assert sum(math.comb(n, i) * bound**i * (1 - bound) ** (n - i) for i in range(k, n + 1)) == pytest.approx(0.001)


def test_clopper_pearson_at_the_ends() -> None:
    assert statistics.clopper_pearson(0, 20) == pytest.approx((0, 1 - 0.025 ** (1 / 20)))
    assert statistics.clopper_pearson(20, 20) == pytest.approx((0.025 ** (1 / 20), 1))


# --- effective size -------------------------------------------------------------------------------


def test_effective_size_of_copies_is_the_number_of_pairs() -> None:
    """Both rows of each pair equal: v = p(1-p) / (m-1), so n_eff = (m-1) (t_{2m-1} / t_{m-1})²."""
    pairs = numbers(*[1, 0, 0, 1, 1, 0, 0, 0, 1, 0] * 4)
    hits, units = pairs.repeat_interleave(2), torch.arange(40).repeat_interleave(2)
    ratio = stats.t.ppf(0.975, 79) / stats.t.ppf(0.975, 39)
    size = statistics.effective_size(hits, units)
    assert size == pytest.approx(39 * ratio**2)
    assert 0.9 * 40 < size <= 40


def test_effective_size_by_hand() -> None:
    """Pairs (1,1), (1,0), (0,0): p = 1/2, pair totals of h - p are 1, 0, -1, so v = 3/2 · 2 / 36 = 1/12."""
    hits, units = numbers(1, 1, 1, 0, 0, 0), torch.tensor([0, 0, 1, 1, 2, 2])
    ratio = stats.t.ppf(0.975, 5) / stats.t.ppf(0.975, 2)
    assert statistics.effective_size(hits, units) == pytest.approx(3 * ratio**2)


def test_effective_size_of_opposites_is_capped_at_the_rows() -> None:
    """Every pair holds a 1 and a 0 but one: the totals hardly vary, yet rows are all there is."""
    hits, units = numbers(*[1, 0] * 30, 1, 1), torch.arange(31).repeat_interleave(2)
    assert statistics.effective_size(hits, units) == 62


def test_effective_size_of_independent_rows_is_about_their_number() -> None:
    generator = torch.Generator().manual_seed(0)
    hits = (torch.rand(20_000, generator=generator) < 0.3).double()
    assert statistics.effective_size(hits, torch.arange(10_000).repeat_interleave(2)) == pytest.approx(20_000, rel=0.05)
    assert statistics.effective_size(hits, torch.arange(20_000)) == 20_000


def test_effective_size_without_exception_is_the_number_of_units() -> None:
    assert statistics.effective_size(torch.zeros(10), torch.arange(5).repeat_interleave(2)) == 5
    score = statistics.share(torch.zeros(10), torch.arange(5).repeat_interleave(2))
    assert (score.value, score.low, score.n) == (0, 0, 5)
    assert score.high == pytest.approx(1 - 0.025 ** (1 / 5))


# --- shares, medians: hand-made samples -----------------------------------------------------------


def test_share_leaves_out_what_is_undefined() -> None:
    score = statistics.share(numbers(1, 0, NAN, 1, 1), condition="given this")
    exact = stats.binomtest(3, 4).proportion_ci(0.95, method="exact")
    assert (score.value, score.n) == (0.75, 4)
    assert (score.low, score.high) == pytest.approx((exact.low, exact.high))
    assert score.note == "1 of 5 rows are undefined and left out"
    assert score.interval.endswith("given this")


@pytest.mark.parametrize("function", [statistics.share, statistics.median])
@pytest.mark.parametrize("units", [None, torch.tensor([0, 0, 1])])
def test_nothing_defined_is_no_score(function, units) -> None:
    score = function(numbers(NAN, NAN, NAN), units)
    assert (score.value, score.low, score.high, score.n) == (None, None, None, 0)
    assert "3 of 3" in score.note


# Ranks of the published order-statistic intervals (Conover 1999, table of the sign test), 95 %.
@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (25, 8), (50, 18), (100, 40)]
)
def test_median_ranks(n, rank) -> None:
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(n)).double() + 1
    score = statistics.median(shuffled)
    assert (score.value, score.low, score.high, score.n) == ((n + 1) / 2, rank, n + 1 - rank, n)
    inside = stats.binom.cdf(n - rank, n, 0.5) - stats.binom.cdf(rank - 1, n, 0.5)
    narrower = stats.binom.cdf(n - rank - 1, n, 0.5) - stats.binom.cdf(rank, n, 0.5)
    assert inside >= 0.95 > narrower


@pytest.mark.parametrize("n", [1, 2, 5])
def test_median_of_few_has_no_interval(n) -> None:
    score = statistics.median(torch.arange(float(n)))
    assert (score.value, score.low, score.high) == ((n - 1) / 2, None, None)
    assert f"{n} are too few for a 95% interval" in score.note


def test_median_leaves_out_what_is_undefined() -> None:
    score = statistics.median(numbers(NAN, 1, 2, 3, 4, 5, 6, NAN))
    assert (score.value, score.low, score.high, score.n) == (3.5, 1, 6, 6)
    assert score.note == "2 of 8 rows are undefined and left out"


def test_median_of_few_pairs_has_no_interval() -> None:
    score = statistics.median(torch.arange(6.0), torch.tensor([0, 0, 1, 1, 2, 2]))
    assert (score.value, score.n) == (2.5, 3)
    assert score.low is None or score.high is None
    assert "3 are too few" in score.note


# --- the mean over pairs: hand-made samples -------------------------------------------------------


def test_pair_mean_without_exception_has_the_exact_limit() -> None:
    zero = statistics.pair_mean(torch.zeros(50), torch.zeros(50))
    assert (zero.value, zero.low) == (0, 0)
    assert zero.high == pytest.approx(1 - 0.025 ** (1 / 50))
    one = statistics.pair_mean(torch.ones(50), torch.ones(50))
    assert (one.value, one.high) == (1, 1)
    assert one.low == pytest.approx(0.025 ** (1 / 50))


def test_pair_mean_of_nothing() -> None:
    score = statistics.pair_mean(torch.full((3,), NAN), torch.zeros(3))
    assert (score.value, score.low, score.high, score.n) == (None, None, None, 0)
    assert score.note


def test_pair_mean_counts_attacked_images() -> None:
    score = statistics.pair_mean(numbers(1, 0.5, NAN), numbers(1, 0.5, 0.5))
    assert (score.value, score.n) == (0.75, 2)


def test_pair_mean_of_images_that_do_not_differ_has_width() -> None:
    """Every image in both roles the same: resampling images moves nothing, the pairs are still a sample."""
    score = statistics.pair_mean(torch.full((20,), 0.5), torch.full((20,), 0.5))
    low, high = statistics.clopper_pearson(190, 380)
    assert (score.low, score.high) == pytest.approx((low, high))


def test_one_attacked_image_tells_nothing_about_others() -> None:
    score = statistics.pair_mean(numbers(0.5, NAN, NAN), numbers(0, 1, 0))
    assert (score.value, score.low, score.high) == (0.5, 0, 1)


# --- differences ----------------------------------------------------------------------------------


def of(value, low, high, n=100) -> Score:
    return Score(value, low, high, n, "")


def test_difference_by_hand() -> None:
    """Arms 0.3 and 0.4 at right angles: 0.5 on both sides; at correlation 0.5, √(0.09 + 0.16 - 0.12) = √0.13."""
    a, b = of(0.6, 0.3, 1.0), of(0.5, 0.2, 0.9)
    gap = statistics.difference(a, b, 0.0)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.1, 0.1 - 0.5, 0.1 + 0.5))
    paired = statistics.difference(a, b, 0.5)
    assert (paired.low, paired.high) == pytest.approx((0.1 - math.sqrt(0.13), 0.1 + math.sqrt(0.13)))
    opposed = statistics.difference(a, b, -1.0)
    assert (opposed.low, opposed.high) == pytest.approx((0.1 - 0.7, 0.1 + 0.7))


def test_difference_is_newcombes_unpaired_example() -> None:
    """Two Wilson intervals, 56/70 and 48/80: Newcombe (1998), "Interval estimation for the difference", method 10."""
    scores = [of(k / n, *stats.binomtest(k, n).proportion_ci(0.95, "wilson"), n) for k, n in ((56, 70), (48, 80))]
    gap = statistics.difference(*scores, 0.0)
    assert (gap.low, gap.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(-1, 1), st.integers(2, 2000))
def test_difference_turns_around_and_narrows(p, q, rho, n) -> None:
    a, b = (of(x, *statistics.clopper_pearson(round(x * n), n), n) for x in (round(p * n) / n, round(q * n) / n))
    there, back = statistics.difference(a, b, rho), statistics.difference(b, a, rho)
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))
    assert there.high - there.low > 0
    unpaired = statistics.difference(a, b, 0.0)
    wider = there if rho < 0 else unpaired
    narrower = unpaired if rho < 0 else there
    assert narrower.high - narrower.low <= wider.high - wider.low + 1e-12


def test_the_same_encoder_twice_has_a_difference_with_width() -> None:
    half = of(0.5, *statistics.clopper_pearson(50, 100))
    gap = statistics.difference(half, half, 1.0)
    assert gap.value == 0
    assert gap.low < 0 < gap.high
    assert gap.high < 0.5 * (half.high - 0.5)  # and still far narrower than the unpaired one


def test_difference_of_what_is_undefined() -> None:
    fine, undefined, bare = of(0.5, 0.4, 0.6), of(None, None, None, 0), of(0.5, None, None, 5)
    assert statistics.difference(fine, undefined, 0.0).value is None
    gap = statistics.difference(fine, bare, 0.0)
    assert (gap.value, gap.low, gap.high) == (0, None, None)
    assert "no interval" in gap.note


# --- influences -----------------------------------------------------------------------------------


def test_correlation() -> None:
    a = numbers(1, 2, 3, 4)
    assert statistics.correlation(a, 5 * a - 1) == pytest.approx(1)
    assert statistics.correlation(a, -a) == pytest.approx(-1)
    assert statistics.correlation(a, numbers(1, -1, -1, 1)) == pytest.approx(0)
    assert statistics.correlation(a, torch.ones(4)) == 0


def test_influences() -> None:
    assert statistics.influence_of_mean(numbers(1, 2, NAN, 6)).tolist() == [-2, -1, 0, 3]
    assert statistics.influence_of_median(numbers(1, 2, NAN, 6)).tolist() == [-1, 0, 0, 1]
    assert statistics.by_unit(numbers(1, 2, 3, 4), torch.tensor([0, 0, 1, 1])).tolist() == [3, 7]
    rows, columns = numbers(1, 0, NAN), numbers(0.25, 0.75, 0.5)
    expected = numbers(0.5 / 2 - 0.25 / 3, -0.5 / 2 + 0.25 / 3, 0)
    torch.testing.assert_close(statistics.influence_of_pair_mean(rows, columns), expected)
