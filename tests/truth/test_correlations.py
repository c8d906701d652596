"""Correlations over encoders: SciPy's values, coverage for scores of any tails, and what few encoders cannot say."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.numerics.statistics.correlations import pearson, pearson_given, spearman

RUNS = 400
ERROR = 3 * math.sqrt(0.05 * 0.95 / RUNS)


def draw(n: int, rho: float, runs: int = RUNS) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal pairs of correlation rho."""
    random = np.random.default_rng(n)
    a, b = random.normal(size=(2, runs, n))
    return torch.from_numpy(a), torch.from_numpy(rho * a + math.sqrt(1 - rho**2) * b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "rho"),
    [  # some combinations; all in long runs
        pytest.param(n, rho, marks=[pytest.mark.slow] * ((n, rho) not in [(4, 0.9)]))
        for n in (4, 6, 12, 40)
        for rho in (0.0, 0.5, 0.9)
    ],
)
def test_the_truth_is_inside_as_often_as_promised(n: int, rho: float) -> None:
    truths = {pearson: rho, spearman: 6 / math.pi * math.asin(rho / 2)}
    for correlate, truth in truths.items():
        scores = [correlate(a, b) for a, b in zip(*draw(n, rho), strict=True)]
        assert np.mean([s.low <= truth <= s.high for s in scores]) >= 0.95 - ERROR
        assert all(s.low <= s.value <= s.high for s in scores)


def far_out(kind: str, n: int, rho: float, runs: int = RUNS) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of normal copula or Student's, skewed or with heavy tails, the two columns first."""
    random = np.random.default_rng(n)
    a, b = random.normal(size=(2, runs, n))
    pairs = np.stack([a, rho * a + math.sqrt(1 - rho**2) * b])
    if kind == "lognormal":
        pairs = np.exp(pairs)
    if kind == "Student's, 3":
        pairs = pairs / np.sqrt(random.chisquare(3, size=(runs, n)) / 3)
    if kind == "Pareto's, 2.5":
        pairs = stats.norm.sf(pairs) ** (-1 / 2.5)
    if kind == "bent":
        pairs[0] = np.exp(pairs[0])
    first, second = torch.from_numpy(pairs)
    return first, second


@pytest.mark.parametrize(
    ("kind", "n", "least"),
    [  # Fisher's interval alone holds the truth in 0.84, 0.72, 0.75, 0.63 and 0.68 of cases
        ("lognormal", 5, 0.95),
        pytest.param("lognormal", 40, 0.95, marks=pytest.mark.slow),
        pytest.param("Student's, 3", 40, 0.95, marks=pytest.mark.slow),
        pytest.param("Student's, 3", 8, 0.95, marks=pytest.mark.slow),
        pytest.param("Pareto's, 2.5", 40, 0.95, marks=pytest.mark.slow),
        pytest.param("bent", 100, 0.95, marks=pytest.mark.slow),
    ],
)
def test_skew_heavy_tails_and_bends_do_not_take_the_level(kind: str, n: int, least: float) -> None:
    a, b = far_out(kind, n, 0.8)
    truths = torch.corrcoef(torch.stack([column.flatten() for column in far_out(kind, 10**6, 0.8, 2)]))
    truth = {"lognormal": (math.exp(0.8) - 1) / (math.e - 1), "Student's, 3": 0.8}.get(kind, float(truths[0, 1]))
    scores = [pearson(x, y) for x, y in zip(a, b, strict=True)]
    assert np.mean([s.low <= truth <= s.high for s in scores]) >= least - ERROR
    order = 0.770 if kind.startswith("Student") else 6 / math.pi * math.asin(0.4)
    ranks = [spearman(x, y) for x, y in zip(a, b, strict=True)]
    assert np.mean([s.low <= order <= s.high for s in ranks]) >= least - ERROR


@pytest.mark.parametrize("n", [4, 9, 30])
def test_values_are_scipys_and_intervals_no_narrower_than_fishers(n: int) -> None:
    a, b = (column[0] for column in draw(n, 0.6, 1))
    peer = stats.pearsonr(a.numpy(), b.numpy())
    found = pearson(a, b)
    assert found.value == pytest.approx(peer.statistic)
    assert found.n == n
    for confidence in (0.95, 0.99):
        found, (low, high) = pearson(a, b, confidence=confidence), peer.confidence_interval(confidence)
        assert found.low < low + 1e-9
        assert found.high > high - 1e-9
    assert spearman(a, b).value == pytest.approx(stats.spearmanr(a.numpy(), b.numpy()).statistic)


def test_fishers_interval_where_no_point_matters_more_than_another() -> None:
    """Points on both axes, three times: r = 0, whichever is left out."""
    a, b = torch.tensor([-1.0, 1, 0, 0]).repeat(3), torch.tensor([0.0, 0, -1, 1]).repeat(3)
    found, reach = pearson(a, b), math.tanh(stats.norm.ppf(0.975) / 3)
    assert (found.value, found.low, found.high) == pytest.approx((0, -reach, reach))


def test_the_jackknifes_interval_by_hand() -> None:
    a, b = np.array([1.0, 2, 3, 4, 5, 30]), np.array([2.0, 1, 4, 3, 6, 40])
    z = np.array([math.atanh(np.corrcoef(np.delete(a, i), np.delete(b, i))[0, 1]) for i in range(6)])
    error = math.sqrt(5 / 6 * ((z - z.mean()) ** 2).sum())
    kurtosis = ((z - z.mean()) ** 4).mean() / ((z - z.mean()) ** 2).mean() ** 2
    r, order = np.corrcoef(a, b)[0, 1], stats.spearmanr(a, b).statistic
    reach = math.hypot(stats.t.ppf(0.975, 12 / (kurtosis - 1)) * error, math.atanh(r) - math.atanh(order))
    found = pearson(torch.from_numpy(a), torch.from_numpy(b))
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach))
    )


def test_spearmans_jackknife_by_hand() -> None:
    a, b = np.arange(12.0), np.array([11.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0])  # all agree but for the outermost
    z = np.array([math.atanh(stats.spearmanr(np.delete(a, i), np.delete(b, i)).statistic) for i in range(12)])
    error, r = math.sqrt(11 / 12 * ((z - z.mean()) ** 2).sum()), stats.spearmanr(a, b).statistic
    reach = stats.t.ppf(0.975, 10) * error
    found = spearman(torch.from_numpy(a), torch.from_numpy(b))
    ends = math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach)
    assert (found.low, found.high) == pytest.approx(ends)


def test_ties_share_their_mean_rank() -> None:
    a, b = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 3.0]), torch.tensor([2.0, 1.0, 1.0, 5.0, 4.0, 5.0])
    assert spearman(a, b).value == pytest.approx(stats.spearmanr(a.numpy(), b.numpy()).statistic)


def test_bonett_and_wright_by_hand() -> None:
    """Ranks 1 2 3 4 against 2 1 4 3: Σd² = 4, r = 1 - 24/60; all points are alike: no error for the jackknife."""
    found = spearman(torch.arange(4.0), torch.tensor([2.0, 1.0, 4.0, 3.0]))
    r = 1 - 24 / 60
    reach = stats.norm.ppf(0.975) * math.sqrt(1 + r**2 / 2)
    assert found.value == pytest.approx(r)
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(math.atanh(r) - reach), math.tanh(math.atanh(r) + reach))
    )


def test_only_the_order_matters_to_spearman() -> None:
    a, b = (column[0] for column in draw(10, 0.5, 1))
    assert spearman(a, b) == spearman(a.exp(), b.pow(3))
    up, down = spearman(a, b), spearman(a, -b)
    assert (down.value, down.low, down.high) == pytest.approx((-up.value, -up.high, -up.low))


@pytest.mark.parametrize("sign", [1, -1])
def test_perfect_order_does_not_prove_a_perfect_relation(sign: int) -> None:
    a = torch.arange(5.0)
    found = spearman(a, sign * a.exp())
    inner = 1 - 6 / 120
    near = math.tanh(math.atanh(inner) - stats.norm.ppf(0.975) * math.sqrt((1 + inner**2 / 2) / 2))
    assert found.value == pytest.approx(sign)
    assert (found.low, found.high) == pytest.approx((near, 1) if sign > 0 else (-1, -near))
    assert near < 0.3


def test_points_on_a_line_have_no_interval() -> None:
    found = pearson(torch.arange(7.0), 0.1 - 3 * torch.arange(7.0))
    assert found.value == pytest.approx(-1)
    assert (found.low, found.high) == (None, None)
    assert "on a line" in found.note


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_few_encoders(correlate) -> None:
    three = correlate(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]))
    assert (three.value, three.low, three.high) == (pytest.approx(0.5), None, None)
    assert "3 points are too few" in three.note
    one = correlate(torch.tensor([1.0]), torch.tensor([2.0]))
    assert one.value is None
    assert correlate(torch.empty(0), torch.empty(0)).value is None


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_constant_numbers_have_no_correlation(correlate) -> None:
    found = correlate(torch.full((8,), 0.1), torch.arange(8.0))
    assert (found.value, found.low, found.high) == (None, None, None)
    assert "differ in both" in found.note


@pytest.mark.parametrize("correlate", [pearson, spearman])
def test_undefined_numbers_are_left_out_and_counted(correlate) -> None:
    a, b = (column[0] for column in draw(8, 0.5, 1))
    whole = correlate(a[2:], b[2:])
    a[0], b[1] = math.nan, math.inf
    found = correlate(a, b)
    assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high))
    assert found.n == 6
    assert "2 of 8 points are left out" in found.note


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("spread", "values"), [
    ((0.02, 0.03), ((0.02, 0.17, 0.24, 0.3), (0.0, 0.83, 0.88, 0.9))), ((0.3, 0.3), ((1, 2, 3, 4), (1, 2, 3, 4.2))),
    ((0.02, 0.05), ((0.1, 0.2, 0.3), (0.5, 0.4, 0.7))),
])  # fmt: skip
def test_given_the_encoders_images_decide(
    spread: tuple[float, float], values: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    """Scores drawn around true ones: the interval holds the true correlation of these encoders in 95 % or more."""
    draws, encoders = 400, len(values[0])
    truth = torch.tensor(values, dtype=torch.float64)
    deviations = torch.tensor(spread, dtype=torch.float64).repeat_interleave(encoders)
    noise = torch.randn(draws, 2 * encoders, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = [
        pearson_given(*(truth.flatten() + deviations * one).chunk(2), deviations.square().diag(), 100) for one in noise
    ]
    true = float(torch.corrcoef(truth)[0, 1])
    held = sum(score.low <= true <= score.high for score in scores if score.low is not None and score.high is not None)
    assert held / draws >= 0.95
    # Errors that both columns and all encoders have in common move none of it
    common = 0.01 * torch.ones(2 * encoders, 2 * encoders, dtype=torch.float64) + 1e-12 * torch.eye(2 * encoders)
    sure = pearson_given(truth[0], truth[1], common, 100)
    assert sure.low == pytest.approx(true, abs=1e-3)


def test_points_on_a_line_have_no_interval_whatever_their_errors() -> None:
    score = pearson_given(torch.arange(3), 2 * torch.arange(3), 0.1 * torch.eye(6), 100)
    assert (score.value, score.low, score.high) == (pytest.approx(1.0), None, None)
    assert "line" in score.note
