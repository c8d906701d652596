"""Weibull fits against SciPy and exact laws, p values under their hypothesis, and Ψ by loops."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from test_measures import Told
from torch import Tensor

from holdfast.core.chart import Curves
from holdfast.numerics import statistics
from holdfast.numerics.geometry.directions import cosine
from holdfast.parts.measures.certified.margin_calibration import beyond
from holdfast.parts.measures.certified.margin_distribution import MarginDistribution, margin_distances
from holdfast.parts.measures.shared.weibull import FITS, anderson_darling, independent, joint, p_values
from holdfast.parts.smoothing.shared.certificate import radius
from holdfast.runtime.errors import BadValue, NotEnough


def weibull(shape: float, scale: float, size: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.from_numpy(stats.weibull_min.rvs(shape, scale=scale, size=size, random_state=seed))


def smallest(shape: float, population: int, tail: int, runs: int, seed: int) -> Tensor:
    """The `tail` smallest of distances with P[D <= t] = t^shape, scaled so that s of the minimum tends to 1."""
    uniform = torch.rand(runs, population, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (population * uniform.topk(tail, largest=False).values) ** (1 / shape)


# --- independent draws ----------------------------------------------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.parametrize("shape", [0.3, 1.0, 6.0, 80.0])
@pytest.mark.parametrize("n", [3, 20, 200])
def test_maximum_likelihood_is_scipys_or_better(shape: float, n: int) -> None:
    draws = weibull(shape, 0.07, (5, n), seed=n)
    fit = independent(draws)
    for row, a, s in zip(draws.numpy(), fit.shape.tolist(), fit.scale.tolist(), strict=True):
        theirs, _, scale = stats.weibull_min.fit(row, floc=0)
        likelihood = [stats.weibull_min.logpdf(row, p, scale=q).sum() for p, q in ((a, s), (theirs, scale))]
        assert likelihood[0] >= likelihood[1] - 1e-9
        assert a == pytest.approx(theirs, rel=2e-3)
        assert s == pytest.approx(scale, rel=2e-3)


@pytest.mark.parametrize(("n", "unbiasing"), [(10, 0.859), (20, 0.931)])
def test_bias_of_the_shape_is_the_published_one(n: int, unbiasing: float) -> None:
    """Thoman, Bain & Antle (1969), table of B(n): B(n) E[â] = a, whatever a and s."""
    ratios = independent(weibull(2.5, 0.1, (20_000, n))).shape / 2.5
    assert 1 / float(ratios.mean()) == pytest.approx(unbiasing, abs=0.006)


def test_units_only_scale_the_scale() -> None:
    draws = weibull(3, 1, (50, 12))
    one, other = independent(draws), independent(1e-9 * draws)
    assert torch.allclose(one.shape, other.shape, rtol=1e-9)
    assert torch.allclose(1e-9 * one.scale, other.scale, rtol=1e-9)


# --- the smallest of many -------------------------------------------------------------------------


def test_joint_by_hand() -> None:
    fit = joint(torch.tensor([[1.0, 2.0, 4.0]]))
    assert float(fit.shape) == pytest.approx(2 / math.log(8))
    assert float(fit.scale) == pytest.approx(4 * 3 ** (-math.log(8) / 2))
    assert fit.residuals.tolist() == [pytest.approx([2 / 3, 4 / 3])]
    assert (float(fit.scale) / 4) ** -float(fit.shape) == pytest.approx(3)  # as many points below D_λ as were seen


def test_joint_is_the_maximum_of_the_stated_likelihoods() -> None:
    d = smallest(3, 1000, 20, 1, seed=0)[0]
    fit = joint(d[None])
    a, s = float(fit.shape), float(fit.scale)

    def likelihood(a: float, s: float) -> float:
        return float(20 * math.log(a / s) + (a - 1) * (d / s).log().sum() - (d.max() / s) ** a)

    def conditional(a: float) -> float:  # of powers of uniform variables
        return float((math.log(a) + (a - 1) * (d / d.max()).log())[:-1].sum())

    for factor in (0.99, 1.01):
        assert likelihood(a, factor * s) < likelihood(a, s)
        assert conditional(factor * a) < conditional(a)


@pytest.mark.parametrize("tail", [5, 20])
def test_shape_follows_its_exact_law(tail: int) -> None:
    """2 (λ - 1) a / â is χ² with 2(λ - 1) degrees, so intervals from it cover as they should."""
    pivots = 2 * (tail - 1) * 3 / joint(smallest(3, 300, tail, 2000, seed=1)).shape
    assert stats.kstest(pivots.numpy(), stats.chi2(2 * (tail - 1)).cdf).pvalue > 0.01
    low, high = stats.chi2.ppf([0.025, 0.975], 2 * (tail - 1))
    assert float(((low <= pivots) & (pivots <= high)).double().mean()) == pytest.approx(0.95, abs=0.015)


def test_the_probability_is_that_of_the_smallest_distance() -> None:
    """Ψ at fresh minima: about uniform for the joint likelihood; the paper's reading calls nearly all of them near.

    Not quite uniform, since a and s are estimates: a little more than a tenth of the minima have Ψ below .1.
    """
    seen, fresh = smallest(3, 1000, 20, 2000, seed=2), smallest(3, 1000, 1, 2000, seed=3)[:, 0]
    found = {name: fit(seen).survival(fresh) for name, fit in FITS.items()}
    assert float(found["joint"].mean()) == pytest.approx(0.5, abs=0.03)
    assert 0.1 < float((found["joint"] < 0.1).double().mean()) < 0.16
    assert float(found["independent"].mean()) > 0.85


# --- goodness of fit ------------------------------------------------------------------------------


def true_samples(likelihood: str, n: int, runs: int) -> Tensor:
    return smallest(2.5, 400, n, runs, seed=4) if likelihood == "joint" else weibull(2.5, 0.1, (runs, n), seed=4)


@pytest.mark.parametrize("likelihood", FITS)
@pytest.mark.parametrize("n", [3, 20])
def test_p_values_are_uniform_where_the_model_holds(likelihood: str, n: int) -> None:
    p = p_values(FITS[likelihood](true_samples(likelihood, n, 2000)), likelihood)
    assert stats.kstest(p.numpy(), "uniform").pvalue > 0.01
    assert float((p < 0.05).double().mean()) == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("likelihood", FITS)
def test_p_values_are_small_where_it_does_not(likelihood: str) -> None:
    two = torch.cat([weibull(30, 0.1, (200, 25), 5), weibull(30, 0.2, (200, 25), 6)], 1)  # two groups of distances
    assert float((p_values(FITS[likelihood](two), likelihood) < 0.05).double().mean()) > 0.95


def test_fits_do_not_stand_for_each_other() -> None:
    """The λ smallest of many are not independent draws of the smallest, nor the other way round."""
    wrong = independent(smallest(3, 1000, 100, 300, seed=7))
    assert float((p_values(wrong, "independent") < 0.05).double().mean()) > 0.5
    wrong = joint(weibull(3, 1, (300, 100), seed=7))
    assert float((p_values(wrong, "joint") < 0.05).double().mean()) > 0.5


def test_anderson_darling_by_loops() -> None:
    draws = np.random.default_rng(8).exponential(size=15)
    f = np.sort(1 - np.exp(-draws))
    n = len(f)
    expected = -n - sum((2 * i + 1) * (math.log(f[i]) + math.log(1 - f[n - 1 - i])) for i in range(n)) / n
    assert float(anderson_darling(torch.from_numpy(draws)[None])) == pytest.approx(expected)


@pytest.mark.parametrize("likelihood", FITS)
def test_where_there_is_no_fit(likelihood: str) -> None:
    rows = torch.tensor([[0.0, 0.1, 0.2, 0.3], [0.1, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    fit = FITS[likelihood](rows)
    for values in (fit.shape, fit.scale, p_values(fit, likelihood), fit.survival(torch.full((4,), 0.1))):
        assert values.isnan().tolist() == [True, True, True, False]


# --- the measure ----------------------------------------------------------------------------------


def subject(population: int = 40, attacked: int = 8, noise: float = 0.3, dim: int = 5) -> Told:
    random = torch.Generator().manual_seed(9)
    clean = torch.randn(population, dim, generator=random)
    found = clean[:attacked] + noise * torch.randn(attacked, dim, generator=random)
    return Told(clean, found)


def test_psi_by_loops() -> None:
    told, measure = subject(), MarginDistribution(tail=12, likelihood="independent")
    table = measure.observe(told)
    clean, found = told.clean.double().numpy(), told.found.double().numpy()

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    for i in range(8):
        distances = sorted((1 - cosine(clean[i], clean[j])) / 2 for j in range(40) if j != i)[:12]
        a, _, s = stats.weibull_min.fit(distances, floc=0)
        gone = 1 - cosine(found[i], clean[i])
        assert float(table["shape"][i]) == pytest.approx(a, rel=2e-3)
        assert float(table["scale"][i]) == pytest.approx(s, rel=2e-3)
        assert float(table["distance@50"][i]) == pytest.approx(gone, rel=1e-9)
        assert float(table["positive@50"][i]) == pytest.approx(math.exp(-((gone / s) ** a)), abs=5e-3)
    assert table["tail"].tolist() == [12] * 8


def test_scores_and_their_order() -> None:
    told, measure = subject(), MarginDistribution()
    table = measure.observe(told)
    scores = measure.score(table)
    assert list(scores) == ["shape", "scale", "fit rejected", "5 steps", "10 steps", "30 steps", "50 steps"]
    for key, column in (("shape", "shape"), ("scale", "scale"), ("50 steps", "positive@50")):
        assert scores[key].value == pytest.approx(float(table[column].quantile(0.5)))
    assert [score.unit for score in scores.values()] == ["ratio", "ratio"] + [""] * 5
    assert scores["fit rejected"].value == float((table["p"] < 0.05).double().mean())
    assert (
        measure.influence(table).tolist() == (table["positive@50"] - table["positive@50"].nanmedian()).sign().tolist()
    )


def test_medians_have_an_interval_where_a_quarter_of_the_population_is_attacked() -> None:
    measure = MarginDistribution()
    scores = measure.score(measure.observe(subject(40, 10)))
    ranks = statistics.median_ranks(10)
    for name, column in (("shape", "shape"), ("50 steps", "positive@50")):
        ordered = measure.observe(subject(40, 10))[column].double().sort().values
        assert (scores[name].low, scores[name].high) == statistics.at_ranks(ordered, ranks)
        assert "given this population" in scores[name].interval
    many = measure.score(measure.observe(subject(39, 10)))
    for name in ("shape", "scale", "50 steps"):
        assert (many[name].low, many[name].high) == (None, None)
        assert "four times as many" in many[name].note
    assert many["fit rejected"].low is not None


def growth(p: float, sigma: float) -> float:
    """Φ(p) of Lemma 24 by its limit: how much of N(0, σ²) a half line of measure p gains when its end moves."""
    end = sigma * stats.norm.ppf(p)
    return (stats.norm.cdf(end + 1e-6, scale=sigma) - p) / 1e-6


@pytest.mark.parametrize("probability", [0.5, 0.6, 0.9, 0.999])
def test_the_radius_of_a_probability_is_the_integral_of_yang(probability: float) -> None:
    area = integrate.quad(lambda p: 1 / growth(p, 0.3), 1 - probability, 0.5, limit=200)[0]
    assert float(radius(torch.tensor(probability).double(), 0.3)) == pytest.approx(area, rel=1e-4, abs=1e-9)


def test_radii_of_later_neighbours_are_larger_by_the_integral_between() -> None:
    """Eq. 38: R_CL - R_LE is the integral from 1 - Ψ_CL to 1 - Ψ_LE, for the k-th nearest and the nearest."""
    fit = joint(smallest(3, 1000, 20, 1, seed=0))
    nearest, third = (beyond(fit, 0.8 * fit.scale, k) for k in (1, 3))
    gap = integrate.quad(lambda p: 1 / growth(p, 0.3), 1 - float(third), 1 - float(nearest))[0]
    assert float(radius(third, 0.3) - radius(nearest, 0.3)) == pytest.approx(gap, rel=1e-4)
    assert gap > 0


def test_the_median_of_psi_is_also_a_radius() -> None:
    told = subject(40, 10, noise=0.02)
    measure = MarginDistribution(sigma=0.25)
    table = measure.observe(told)
    scores = measure.score(table)
    plain, found = scores["50 steps"], scores["radius of Ψ, 50 steps"]
    assert list(scores)[-1] == "50 steps"
    assert found.unit == "pixels"
    assert plain.value is not None
    assert plain.value > 0.5
    for end in ("value", "low", "high"):
        assert getattr(found, end) == pytest.approx(max(0, 0.25 * stats.norm.ppf(getattr(plain, end))))
    assert not any("radius" in name for name in MarginDistribution().score(table))
    still = table | {"positive@50": torch.ones(10).double(), "positive@30": torch.full((10,), 0.3).double()}
    assert 2 < float(measure.score(still)["radius of Ψ, 50 steps"].value or 0) < 2.25
    assert measure.score(still)["radius of Ψ, 30 steps"].value == 0
    with pytest.raises(BadValue):
        MarginDistribution(sigma=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_given_the_population_intervals_hold_the_median_of_new_images(noise: float) -> None:
    """New images read against a population of as many others, on 300 populations of classes."""
    centres = 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(5))
    measure, held = MarginDistribution(tail=20), 0
    for seed in range(300):
        random = torch.Generator().manual_seed(seed)

        def draw(count: int, random: torch.Generator = random) -> Tensor:
            return centres[torch.randint(4, (count,), generator=random)] + torch.randn(count, 6, generator=random)

        def moved(x: Tensor, random: torch.Generator = random) -> Tensor:
            return x + noise * torch.randn(x.shape, generator=random)

        population, new = draw(160), draw(600)
        score = measure.score(measure.observe(Told(population, moved(population[:40]))))["50 steps"]
        distances = cosine_to(new, population[1:]).topk(20, largest=False).values / 2
        truth = joint(distances.double()).survival(cosine(moved(new).double(), new.double())).median()
        assert score.low is not None
        assert score.high is not None
        held += bool(score.low <= truth <= score.high)
    assert held >= 0.92 * 300


def cosine_to(a: Tensor, b: Tensor) -> Tensor:
    return (1 - torch.nn.functional.normalize(a, dim=1) @ torch.nn.functional.normalize(b, dim=1).T).clamp_min(1e-9)


def test_an_image_that_does_not_move_is_positive_and_a_far_one_is_not() -> None:
    told = subject()
    told.found = told.clean[:8].clone()
    assert MarginDistribution().observe(told)["positive@50"].tolist() == [1.0] * 8
    told.found = -told.clean[:8]
    assert float(MarginDistribution().observe(told)["positive@50"].max()) < 1e-6


def test_the_length_of_representations_does_not_matter() -> None:
    told = subject()
    before = MarginDistribution().observe(told)
    told.clean, told.found = told.clean * torch.logspace(-2, 2, 40)[:, None], 5 * told.found
    after = MarginDistribution().observe(told)
    for name, column in before.items():
        assert torch.allclose(column.double(), after[name].double(), rtol=1e-4, atol=1e-5), name


def test_twins_and_constant_encoders_are_left_out_and_counted() -> None:
    told = subject()
    told.clean[20] = told.clean[3]
    measure = MarginDistribution()
    table = measure.observe(told)
    assert table["positive@50"].isnan().tolist() == [i == 3 for i in range(8)]
    assert "1 of 8 rows are undefined" in measure.score(table)["50 steps"].note
    constant = Told(torch.ones(40, 5), torch.ones(8, 5))
    scores = measure.score(measure.observe(constant))
    assert all(score.value is None for score in scores.values())
    assert all("8 of 8 rows are undefined" in score.note for score in scores.values())


def test_a_zero_representation_is_equally_far_from_all() -> None:
    told = subject()
    told.clean[2] = 0
    table = MarginDistribution().observe(told)
    assert table["shape"].isnan().tolist() == [i == 2 for i in range(8)]


@pytest.mark.parametrize(("population", "tail"), [(5, 3), (13, 3), (41, 10), (81, 20), (400, 20)])
def test_usual_tail(population: int, tail: int) -> None:
    table = MarginDistribution().observe(subject(population, 4))
    assert table["tail"].tolist() == [tail] * 4


def test_too_few_images_and_bad_parameters() -> None:
    with pytest.raises(NotEnough, match="got 2"):
        MarginDistribution().observe(subject(3, 2))
    with pytest.raises(NotEnough, match="got 39"):
        MarginDistribution(tail=40).observe(subject())
    assert MarginDistribution(tail=39).observe(subject())["shape"].isfinite().all()
    with pytest.raises(BadValue, match="tail"):
        MarginDistribution(tail=2)


def test_nearest_distances_leave_the_image_itself_out_even_among_twins() -> None:
    clean = torch.tensor([[1.0, 0.0]] * 6 + [[0.0, 1.0]] * 3)
    distances = margin_distances(clean, torch.arange(9), 4)
    assert distances[:6].tolist() == [[0.0] * 4] * 6
    assert distances[6:].tolist() == [[0.0, 0.0, 0.5, 0.5]] * 3


# --- its chart ------------------------------------------------------------------------------------


def test_the_chart_shows_the_median_image_the_narrowest_the_widest_and_every_attacked_one() -> None:
    shape, scale = torch.tensor([2.0, 3.0, 4.0, 5.0, 2.5, torch.nan]), torch.tensor([0.1, 0.3, 0.2, 0.15, 0.4, 0.1])
    distance = torch.tensor([0.05, 0.1, 0.2, 0.3, 9.0, 0.1])
    measure = MarginDistribution()
    table = {"shape": shape, "scale": scale, f"distance@{measure.steps[-1]}": distance}
    chart = next(chart for chart in measure.charts(table, {}) if isinstance(chart, Curves))
    *curves, points = chart.lines
    assert [line.style for line in chart.lines] == ["solid", "dashed", "dashed", "points"]
    for line, image in zip(curves, (2, 0, 4), strict=True):
        psi = [float(torch.exp(-((x / scale[image]) ** shape[image]))) for x in line.x]
        assert line.y == pytest.approx(psi, abs=1e-6)
    assert points.x == pytest.approx(distance[:5].tolist())  # an image without a fit has no curve
    assert chart.most == pytest.approx(1.5 * 0.4 * math.log(2) ** (1 / 2.5), rel=1e-6)
    assert not any(isinstance(chart, Curves) for chart in measure.charts({**table, "shape": shape * torch.nan}, {}))
