"""Lower bounds of means: known values, conservative inversion, coverage at fixed and at chosen numbers of draws."""

import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

from holdfast.numerics.statistics import betting as confidence
from holdfast.numerics.statistics import sequential
from holdfast.runtime.errors import BadValue

RUNS, ALPHA = 1500, 0.05


def at_most(failures: int, runs: int, alpha: float) -> None:
    """Fail where so many failures would be a 1 in 1,000 accident at a failure rate of alpha."""
    assert stats.binomtest(failures, runs, alpha, alternative="greater").pvalue > 1e-3, f"{failures} of {runs}"


def bernoulli(p: float):
    return lambda random, *shape: (torch.rand(shape, generator=random, dtype=torch.float64) < p).double(), p


def beta(a: float, b: float):
    def draw(random: torch.Generator, *shape: int) -> Tensor:
        source = np.random.default_rng(random.initial_seed())
        return torch.from_numpy(source.beta(a, b, shape))

    return draw, a / (a + b)


KNOWN = {
    "bernoulli .999": bernoulli(0.999), "bernoulli .9": bernoulli(0.9), "bernoulli .5": bernoulli(0.5),
    "bernoulli .01": bernoulli(0.01), "beta 20 2": beta(20, 2), "beta .3 .3": beta(0.3, 0.3),
    "beta 500 5": beta(500, 5), "beta 1 30": beta(1, 30),
}  # fmt: skip


@pytest.mark.parametrize(
    ("hits", "trials", "bound"), [(99, 100, 0.9113731), (100, 100, 0.9332543), (100_000, 100_000, 0.99993092)]
)
def test_clopper_pearson_check_numbers(hits, trials, bound) -> None:
    assert float(confidence.clopper_pearson_lower(torch.tensor(hits), trials, 0.001)) == pytest.approx(bound, abs=5e-8)


def test_clopper_pearson_is_the_largest_share_that_is_ruled_out() -> None:
    """P[k or more hits] is at most α at the bound, and hardly less; at the next nearby share it is more."""
    for trials in (1, 10, 257, 10_000):
        hits = torch.arange(0, trials + 1, max(1, trials // 50))
        for k, bound in zip(hits.tolist(), confidence.clopper_pearson_lower(hits, trials, 0.001).tolist(), strict=True):
            if k == 0:
                assert bound == 0
                continue
            assert stats.binom.sf(k - 1, trials, bound) <= 0.001 * (1 + 1e-9)
            assert stats.binom.sf(k - 1, trials, bound * (1 + 1e-9)) > 0.001


def test_tallies_keep_the_mean_and_know_the_ends() -> None:
    values = torch.rand(500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values[0], values[1], values[2] = 0, 1, 0.5
    counts = confidence.tally(values)
    torch.testing.assert_close(confidence.empirical_mean(counts), values.mean(0))
    assert counts.shape == (3, len(confidence.LEVELS))
    torch.testing.assert_close(1 - confidence.LEVELS, confidence.LEVELS.flip(0))
    whole = confidence.tally(torch.tensor([0.0, 1.0, 1.0, 0.5])[:, None])[0]
    assert {float(confidence.LEVELS[i]): float(whole[i]) for i in whole.nonzero().flatten()} == {0: 1, 0.5: 1, 1: 2}
    votes = confidence.tally_votes(torch.tensor([2]), torch.tensor([5]))
    torch.testing.assert_close(votes, confidence.tally(torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0])[:, None]))


def test_tallies_in_chunks_are_tallies() -> None:
    values = torch.rand(100, 2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(sum(map(confidence.tally, values.split(7))), confidence.tally(values))


@pytest.mark.parametrize("name", KNOWN)
def test_a_tally_never_wins_more_than_the_draws_themselves(name) -> None:
    values = KNOWN[name][0](torch.Generator().manual_seed(2), 400, 5)
    for mean in (0.02, 0.3, 0.5, 0.93):
        stake = confidence.bets(0.001, 400)
        exact = (1 - stake + stake * values[..., None] / mean).log().sum(0).logsumexp(-1) - math.log(len(stake))
        told = confidence.log_capital(confidence.tally(values), torch.full((5,), mean, dtype=torch.float64), 0.001, 400)
        assert (told <= exact + 1e-9).all()
        if "bernoulli" in name:
            torch.testing.assert_close(told, exact)
        elif mean < 0.9:  # the price of tallying
            assert (told >= exact - 0.1 * exact.abs() - 1).all()


def test_the_bound_is_ruled_out_and_what_lies_above_is_not() -> None:
    counts = confidence.tally(torch.rand(300, 50, generator=torch.Generator().manual_seed(3)).sqrt())
    bound = confidence.lower(counts, 0.01, 300)
    assert confidence.exceeds(counts, bound, 0.01, 300).all()
    assert not confidence.exceeds(counts, bound + 1e-8, 0.01, 300).any()
    grid = torch.linspace(0.01, 0.99, 99).double()
    capital = torch.stack([confidence.log_capital(counts, m.expand(50), 0.01, 300) for m in grid])
    assert (capital.diff(dim=0) <= 1e-9).all()


@pytest.mark.parametrize("steps", [confidence.NEWTON, 2])
def test_the_bound_is_that_of_plain_halving(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """With a quarter of the looks, or where Newton's method has not come near the root yet."""
    monkeypatch.setattr(confidence, "NEWTON", steps)
    random, looks = torch.Generator().manual_seed(5), []
    exceeds = confidence.exceeds
    monkeypatch.setattr(confidence, "exceeds", lambda *given: looks.append(given) or exceeds(*given))
    few = torch.rand(400, 30, generator=random) < 0.02
    for values in (torch.rand(700, 30, generator=random) ** 3, few, torch.zeros(50, 4), torch.ones(50, 4)):
        counts = confidence.tally(values)
        low, high = torch.zeros(values.shape[1]).double(), confidence.empirical_mean(counts)
        for _ in range(confidence.HALVINGS):
            middle = (low + high) / 2
            out = exceeds(counts, middle, 0.01, 500)
            low, high = torch.where(out, middle, low), torch.where(out, high, middle)
        looks.clear()
        assert torch.equal(confidence.lower(counts, 0.01, 500), low)
        assert steps == 2 or len(looks) <= confidence.HALVINGS / 4


@pytest.mark.parametrize("precision", [0.0, 0.5, 1.0])
def test_all_are_settled_where_each_is(precision: float) -> None:
    random, answers = torch.Generator().manual_seed(6), []
    for _ in range(200):
        mean, draws = torch.rand(3, generator=random) ** 0.2, int(torch.randint(1, 900, (), generator=random))
        counts = confidence.tally((torch.rand(draws, 3, generator=random) < mean).double())
        answers.append(bool(sequential.is_settled(counts, precision, 0.001, 1000).all()))
        assert sequential.all_settled(counts, precision, 0.001, 1000) == answers[-1]
    assert any(answers) == (precision > 0)
    assert not all(answers)


def test_below_is_above_of_the_complement() -> None:
    values = torch.rand(200, 40, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    limit = torch.linspace(0.4, 0.7, 40).double()
    below = confidence.stays_below(confidence.tally(values), limit, 0.05, 200)
    above = confidence.exceeds(confidence.tally(1 - values), 1 - limit, 0.05, 200)
    assert torch.equal(below, above)
    assert below.any()
    assert not below.all()


def test_the_docstring_tells_the_truth_about_its_rivals() -> None:
    """Means of 1 and of Beta(20, 2) from 1,000 draws at α .001: Hoeffding, empirical Bernstein, betting."""
    alpha, n = 0.001, 1000
    quantiles = torch.from_numpy(stats.beta.ppf((np.arange(n) + 0.5) / n, 20, 2))
    for values, expected in ((torch.ones(n).double(), (0.941, 0.982, 0.992)), (quantiles, (0.850, 0.884, 0.900))):
        mean, deviation = float(values.mean()), float(values.std())
        hoeffding = mean - math.sqrt(math.log(1 / alpha) / (2 * n))
        bernstein = mean - deviation * math.sqrt(2 * math.log(2 / alpha) / n) - 7 * math.log(2 / alpha) / (3 * (n - 1))
        betting = float(confidence.lower(confidence.tally(values[:, None]), alpha, n))
        assert (hoeffding, bernstein, betting) == pytest.approx(expected, abs=6e-4)
    assert float(confidence.clopper_pearson_lower(torch.tensor(n), n, alpha)) == pytest.approx(0.993, abs=5e-4)


def truth_of(variables: Tensor, truth: float) -> Tensor:
    return torch.full_like(variables, truth, dtype=torch.float64)


def too_high(counts: Tensor, truth: float, budget: int) -> int:
    """In how many rows the bound is above the mean: where the draws rule the mean itself out."""
    return int(confidence.exceeds(counts, truth_of(counts[:, 0], truth), ALPHA, budget).sum())


@pytest.mark.parametrize("draws", [30, 400])
@pytest.mark.parametrize("name", KNOWN)
def test_betting_covers(name, draws) -> None:
    draw, truth = KNOWN[name]
    counts = confidence.tally(draw(torch.Generator().manual_seed(draws), draws, RUNS))
    at_most(too_high(counts, truth, draws), RUNS, ALPHA)
    if draws == 400:  # and it is no empty promise
        plain = math.sqrt(truth * (1 - truth) / draws)
        bound = confidence.lower(counts[:100], ALPHA, draws)
        assert torch.equal(bound > truth, confidence.exceeds(counts[:100], truth_of(bound, truth), ALPHA, draws))
        assert float(truth - bound.mean()) < 4 * plain + 0.01


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_clopper_pearson_covers_and_is_sharp(p) -> None:
    hits = torch.from_numpy(np.random.default_rng(0).binomial(300, p, 20_000))
    failures = int((confidence.clopper_pearson_lower(hits, 300, ALPHA) > p).sum())
    at_most(failures, 20_000, ALPHA)
    assert failures > 0.3 * ALPHA * 20_000


@pytest.mark.parametrize("name", ["bernoulli .9", "beta .3 .3"])
def test_betting_covers_at_every_stopping_time(name) -> None:
    draw, truth = KNOWN[name]
    counts, ever = torch.zeros(RUNS, len(confidence.LEVELS)).double(), torch.zeros(RUNS).bool()
    for look in range(1, 16):
        counts = counts + confidence.tally(draw(torch.Generator().manual_seed(look), 20, RUNS))
        ever |= confidence.exceeds(counts, truth_of(ever, truth), ALPHA, 500)
    at_most(int(ever.sum()), RUNS, ALPHA)  # what a stopping rule of ill will would report


def test_clopper_pearson_does_not_which_is_why_betting_is_there() -> None:
    source, hits, ever = np.random.default_rng(1), np.zeros(RUNS, dtype=int), torch.zeros(RUNS).bool()
    for look in range(1, 16):
        hits = hits + source.binomial(20, 0.9, RUNS)
        ever |= confidence.clopper_pearson_lower(torch.from_numpy(hits), 20 * look, ALPHA) > 0.9
    assert int(ever.sum()) > 2 * ALPHA * RUNS


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05])
def test_fewest_draws_are_the_fewest(alpha) -> None:
    n = confidence.fewest_trials(alpha)
    assert float(confidence.clopper_pearson_lower(torch.tensor(n), n, alpha)) > 0.5
    assert float(confidence.clopper_pearson_lower(torch.tensor(n - 1), n - 1, alpha)) < 0.5
    n = confidence.fewest_draws(alpha)
    reach = [confidence.highest_radius(n + i, alpha) for i in (-1, 0)]
    assert reach[0] <= 0 < reach[1]


def test_the_highest_radius_is_that_of_draws_which_are_all_one() -> None:
    bound = confidence.lower(confidence.tally(torch.ones(256, 1)), 0.001, 256)
    assert confidence.highest_radius(256, 0.001) == pytest.approx(float(special.ndtri(bound.item())))


@pytest.mark.parametrize("value", [math.nan, -0.01, 1.01, math.inf])
def test_values_outside_are_refused(value) -> None:
    with pytest.raises(BadValue):
        confidence.tally(torch.tensor([[0.5], [value]]))


@pytest.mark.parametrize("alpha", [0, 1, 0.5, -0.1, math.nan])
def test_levels_outside_are_refused(alpha) -> None:
    with pytest.raises(BadValue, match="alpha"):
        confidence.check_level(alpha, "here")
