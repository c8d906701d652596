"""Robust Bayes classifiers of two Gaussian classes: against simulation, optimality, invariance, edges."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from scipy import stats
from sklearn.covariance import ledoit_wolf

from holdfast.numerics.gaussian_classes.nearest_shift import dual_norm, length
from holdfast.numerics.gaussian_classes.robust_bayes import GaussianClasses, RobustBayes, fit
from holdfast.runtime.errors import BadValue, NotEnough, NotFinite, UnknownName

DRAWS = 200_000
EPSILONS = torch.tensor([0.0, 0.2, 0.5, 0.8], dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mixture(kind: str, share: float = 0.5, dim: int = 5) -> GaussianClasses:
    """An isotropic mixture, a general one, or one whose noise lies in fewer directions than there are."""
    k = dim - 2 if kind == "flat" else dim
    half, values = 0.6 * random(k, seed=1), torch.logspace(-1, 0.5, k).double()
    if kind == "isotropic":
        return GaussianClasses(random(dim), None, torch.full((dim,), 0.5), half, share)
    return GaussianClasses(random(dim), torch.linalg.qr(random(dim, k, seed=2)).Q, values, half, share)


def budgets(kind: str) -> torch.Tensor:
    """Budgets that leave something: where F is not square, smaller balls than that through the mean reach it."""
    return 0.5 * EPSILONS if kind == "flat" else EPSILONS


def draw(model: GaussianClasses, count: int = DRAWS, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    signs = 2.0 * (torch.rand(count, generator=generator, dtype=torch.float64) < model.share) - 1
    noise = torch.randn(count, len(model.half), generator=generator, dtype=torch.float64)
    return model.centre + model._spread(signs[:, None] * model.half + noise * model.values.sqrt()), signs


def near(found: torch.Tensor, expected: torch.Tensor, deviation: torch.Tensor | float) -> bool:
    """Whether two means of `DRAWS` draws agree within four standard errors."""
    return bool(((found - expected).abs() < 4 * deviation / math.sqrt(DRAWS)).all())


def cases(shares: list[float], norms: list[float]) -> pytest.MarkDecorator:
    """Every kind, share and norm: each pair of a kind and a norm with one share, all in long runs."""
    every = itertools.product(enumerate(["isotropic", "general", "flat"]), enumerate(shares), enumerate(norms))
    return pytest.mark.parametrize(
        ("kind", "share", "norm"),
        [
            pytest.param(kind, share, norm, marks=[pytest.mark.slow] * ((i + j + k) % len(shares) > 0))
            for (i, kind), (j, share), (k, norm) in every
        ],
    )


@pytest.mark.sweep(3)
@cases([0.5, 0.8, 0.1], [1.0, 2.0, math.inf])
def test_formulas_agree_with_simulation(kind: str, share: float, norm: float) -> None:
    model = mixture(kind, share)
    rules = model.classifiers(budgets(kind), norm=norm)
    x, signs = draw(model)
    scaled = rules.relative_margins(x, signs)
    right = scaled > 0
    assert near(right.double().mean(1), rules.accuracy(), 0.5)
    means = torch.stack([row[hit].mean() for row, hit in zip(scaled, right, strict=True)])
    spread = torch.stack([row[hit].std() / hit.double().mean().sqrt() for row, hit in zip(scaled, right, strict=True)])
    assert near(means, rules.bound(), spread)
    # the adversary's best move takes ε ||Fw||_q from the score of the class: done here, not computed
    normals = model._spread(rules.weights)
    for number, radius in enumerate(rules.radii.tolist()):
        move = steepest(normals[number], norm) * radius
        assert float(length(move, norm)) <= radius * (1 + 1e-9)
        moved = rules.relative_margins(x - signs[:, None] * move, signs)[number]
        assert near((moved > 0).double().mean(), rules.robust_accuracy()[number], 0.5)
        held = right[number] & (rules.decision_margins(x)[number] > radius)
        assert bool(((moved > 0) == held).all())


def steepest(normal: torch.Tensor, norm: float) -> torch.Tensor:
    """The step of length 1 along which a linear function grows most."""
    if norm == math.inf:
        return normal.sign()
    if norm == 1:
        return normal.sign() * torch.nn.functional.one_hot(normal.abs().argmax(), len(normal))
    return normal / normal.norm()


def test_balanced_bound_is_a_function_of_the_accuracy_alone() -> None:
    rules = mixture("general").classifiers(EPSILONS)
    a = rules.accuracy().numpy()
    expected = 1 + stats.norm.pdf(stats.norm.ppf(a)) / (a * stats.norm.ppf(a))
    torch.testing.assert_close(rules.bound(), torch.from_numpy(expected))
    one = GaussianClasses(torch.zeros(1), None, torch.ones(1), torch.tensor([0.1])).classifiers(torch.zeros(1))
    assert one.bound().item() == pytest.approx(8.3533, abs=5e-5)
    one = GaussianClasses(torch.zeros(1), None, torch.ones(1), torch.tensor([1.0])).classifiers(torch.zeros(1))
    assert one.bound().item() == pytest.approx(1.28760, abs=5e-6)


def test_isotropic_margins_are_those_of_the_first_result() -> None:
    model = mixture("isotropic", 0.8)
    model = replace(model, values=torch.ones(5))
    radius = 0.3
    x, _ = draw(model, 50)
    found = model.classifiers(torch.tensor([radius]), relative=False).decision_margins(x)[0]
    size = float(model.half.norm())
    left, q = 1 - radius / size, math.log(0.2 / 0.8)
    expected = (q / 2 - (x - model.centre) @ model.half * left).abs() / (left * size)
    torch.testing.assert_close(found, expected)


@pytest.mark.sweep(3)
@cases([0.5, 0.8], [1.0, 1.5, 2.0, 3.0, math.inf])
def test_no_other_linear_classifier_is_more_robust(kind: str, share: float, norm: float) -> None:
    model = mixture(kind, share)
    rules = model.classifiers(budgets(kind), norm=norm)
    best = rules.robust_accuracy()
    for number, radius in enumerate(rules.radii.tolist()):
        own = rules.weights[number] / rules.weights[number].norm()
        steps = torch.logspace(-4, 1, 500).double()[:, None]
        weights = torch.cat([own + steps * random(500, len(own), seed=number), random(500, len(own), seed=9)])
        weights = weights * 10 ** random(1000, 1, seed=8)  # the threshold is given: lengths decide where it lies
        mean = weights @ model.half - radius * length(model._spread(weights), dual_norm(norm))
        spread = (weights.square() @ model.values).sqrt()
        normal = torch.special.ndtr
        robust = share * normal((mean - model.threshold) / spread)
        robust += (1 - share) * normal((mean + model.threshold) / spread)
        assert float(robust.max()) <= float(best[number]) + 1e-9
        assert float(robust.max()) > float(best[number]) - 0.05  # the search comes near


def test_the_paper_s_ball_in_eigen_coordinates_is_not_optimal() -> None:
    model = mixture("general")
    wrong = replace(model, vectors=None).classifiers(torch.tensor([0.15]), relative=False, norm=math.inf)
    wrong = RobustBayes(model, wrong.radii, wrong.weights, math.inf)
    right = model.classifiers(torch.tensor([0.15]), relative=False, norm=math.inf)
    assert float(right.robust_accuracy()) > float(wrong.robust_accuracy()) + 0.001


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, math.inf])
def test_axes_may_be_written_out(norm: float) -> None:
    axes = torch.eye(5, dtype=torch.float64)[:, [3, 0, 1, 4, 2]] * torch.tensor([1, -1, 1, 1, -1])
    written = replace(mixture("general"), vectors=axes)
    plain = GaussianClasses(written.centre, None, axes.abs() @ written.values, axes @ written.half)
    x, signs = draw(plain, 50)
    first, second = (m.classifiers(EPSILONS, norm=norm) for m in (written, plain))
    torch.testing.assert_close(first.relative_margins(x, signs), second.relative_margins(x, signs))
    torch.testing.assert_close(first.robust_accuracy(), second.robust_accuracy())


def sample(n: int, dim: int, seed: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    signs = torch.ones(n)
    signs[: n // 2] = -1
    mix = random(dim, dim, seed=seed) / math.sqrt(dim)
    return (random(n, dim, seed=seed + 1) @ mix + 0.3 * signs[:, None] + 2).float(), signs


@pytest.mark.parametrize("shrinkage", ["none", "ledoit_wolf"])
@pytest.mark.parametrize(("n", "dim"), [(60, 8), (30, 50), (40, 1)])
def test_orthogonal_maps_and_scales_change_nothing(n: int, dim: int, shrinkage: str) -> None:
    reps, signs = (tensor.double() for tensor in sample(n, dim))
    turn, shift = torch.linalg.qr(random(dim, dim, seed=7)).Q, random(dim, seed=8)
    epsilons = torch.tensor([0.0, 0.3])

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return fit(x, signs, shrinkage=shrinkage).classifiers(epsilons).relative_margins(x, signs)

    expected = scaled(reps)
    for x in (reps @ turn, reps + shift, 1e-4 * reps, 1e5 * reps):
        torch.testing.assert_close(scaled(x), expected, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize(("n", "dim"), [(200, 6), (30, 60)])
def test_fit_is_the_pooled_covariance(n: int, dim: int) -> None:
    reps, signs = sample(n, dim)
    model = fit(reps, signs)
    x = reps.double()
    means = [x[signs == sign].mean(0) for sign in (1, -1)]
    centred = torch.cat([x[signs == sign] - mean for sign, mean in zip((1, -1), means, strict=True)])
    assert len(model.values) == min(dim, n - 2)
    torch.testing.assert_close(
        model.vectors @ model.values.diag() @ model.vectors.T, centred.T @ centred / (n - 2), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(model.half, model.vectors.T @ (means[0] - means[1]) / 2)
    torch.testing.assert_close(model.centre, (means[0] + means[1]) / 2)


@pytest.mark.parametrize(("n", "dim"), [(200, 6), (30, 60)])
def test_shrinkage_is_that_of_scikit_learn(n: int, dim: int) -> None:
    reps, signs = sample(n, dim)
    x = reps.double()
    model = fit(reps, signs, shrinkage="ledoit_wolf")
    half = (x[signs == 1].mean(0) - x[signs == -1].mean(0)) / 2
    centred = x - torch.where(signs[:, None] == 1, x[signs == 1].mean(0), x[signs == -1].mean(0))
    full = torch.from_numpy(ledoit_wolf(centred.numpy(), assume_centered=True)[0]) * n / (n - 2)
    torch.testing.assert_close(
        model.vectors.T @ model.vectors, torch.eye(len(model.values)).double(), atol=1e-9, rtol=0
    )
    torch.testing.assert_close(model.vectors.T @ full @ model.vectors, model.values.diag(), atol=1e-9, rtol=0)
    torch.testing.assert_close(model.vectors @ model.half, half, atol=1e-9, rtol=0)
    # nothing is lost by writing out fewer directions than there are
    values, vectors = torch.linalg.eigh(full)
    whole = GaussianClasses(model.centre, vectors, values, vectors.T @ half)
    first, second = (m.classifiers(EPSILONS) for m in (model, whole))
    ours, theirs = first.relative_margins(x, signs), second.relative_margins(x, signs)
    torch.testing.assert_close(ours, theirs, atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(first.robust_accuracy(), second.robust_accuracy())


def test_fit_comes_near_the_truth() -> None:
    truth = mixture("general")
    rules = fit(*draw(truth)).classifiers(EPSILONS)
    torch.testing.assert_close(rules.accuracy(), truth.classifiers(EPSILONS).accuracy(), atol=0.01, rtol=0)
    wide = 1e-8 * random(1000, 5)
    wide[:, :3] = random(1000, 3, seed=2)
    cut = fit(wide, torch.ones(1000).index_fill(0, torch.arange(500), -1))
    assert len(cut.values) == 4  # two that are below the cutoff count as one with the variance of the cutoff
    assert float(cut.half[3].square() / cut.values[3]) < 1e-6


def silent(rules: RobustBayes, x: torch.Tensor, signs: torch.Tensor) -> bool:
    answers = (rules.relative_margins(x, signs), rules.decision_margins(x), rules.bound(), rules.weights)
    return not any(bool(answer.any()) for answer in answers)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, math.inf])
@pytest.mark.parametrize("kind", ["isotropic", "general", "flat"])
def test_an_adversary_that_joins_the_means_leaves_no_answer(kind: str, norm: float) -> None:
    model = mixture(kind)
    x, signs = draw(model, 20)
    rules = model.classifiers(torch.tensor([1.0, 5.0]), norm=norm)
    assert silent(rules, x, signs)
    assert rules.accuracy().tolist() == rules.robust_accuracy().tolist() == [0.5, 0.5]
    often = replace(model, share=0.9).classifiers(torch.tensor([1.0]), norm=norm)
    assert silent(often, x, signs)
    assert often.accuracy().item() == often.robust_accuracy().item() == 0.9


@pytest.mark.parametrize("shrinkage", ["none", "ledoit_wolf"])
@pytest.mark.parametrize("norm", [1.5, 2.0])
def test_a_constant_representation_has_no_direction(shrinkage: str, norm: float) -> None:
    signs = torch.ones(64).index_fill(0, torch.arange(32), -1)
    constant = 3 + random(16).float()
    for reps in (
        torch.zeros(64, 16),
        constant.expand(64, -1),
        constant * (1 + 2.0**-23 * torch.randint(-1, 2, (64, 16), generator=torch.Generator().manual_seed(0))),
    ):
        model = fit(reps, signs, shrinkage=shrinkage)
        assert len(model.values) == 0
        rules = model.classifiers(EPSILONS, norm=norm)
        assert silent(rules, reps, signs)
        assert rules.accuracy().tolist() == rules.robust_accuracy().tolist() == [0.5] * 4


def test_small_signals_on_large_offsets_are_kept() -> None:
    reps, signs = sample(100, 4)
    model = fit(100 + 1e-2 * reps, signs)
    assert len(model.values) == 4


def test_one_dimension() -> None:
    reps, signs = sample(50, 1)
    rules = fit(reps, signs).classifiers(torch.tensor([0.0, 0.5, 1.0]))
    x = reps.double()
    middle = (x[signs == 1].mean() + x[signs == -1].mean()) / 2
    half = (x[signs == 1].mean() - x[signs == -1].mean()) / 2
    expected = ((x - middle)[:, 0] * signs / half).expand(2, -1)
    torch.testing.assert_close(rules.relative_margins(x, signs)[:2], expected)
    assert not rules.relative_margins(x, signs)[2].any()


def test_what_has_no_answer_is_refused() -> None:
    reps, signs = sample(20, 3)
    for share in (0.0, 1.0, -0.2, math.nan):
        with pytest.raises(BadValue, match="share"):
            replace(mixture("general"), share=share)
    with pytest.raises(BadValue, match="variances > 0"):
        replace(mixture("general"), values=torch.zeros(5))
    with pytest.raises(NotFinite, match="half"):
        replace(mixture("general"), half=torch.full((5,), math.nan))
    with pytest.raises(BadValue, match="epsilons"):
        mixture("general").classifiers(torch.tensor([-0.1]))
    with pytest.raises(BadValue, match="epsilons"):
        mixture("general").classifiers(torch.tensor([math.nan]))
    with pytest.raises(BadValue, match="norm"):
        mixture("general").classifiers(EPSILONS, norm=0.5)
    with pytest.raises(NotFinite, match="representations"):
        fit(reps.index_fill(0, torch.tensor([3]), math.inf), signs)
    with pytest.raises(NotEnough, match="mixture"):
        fit(reps, torch.ones(20).index_fill(0, torch.tensor([0]), -1))
    with pytest.raises(BadValue, match="-1"):
        fit(reps, torch.arange(20) % 2)
    with pytest.raises(BadValue, match="-1"):
        fit(reps, signs).classifiers(EPSILONS).relative_margins(reps, torch.zeros(20))
    with pytest.raises(UnknownName, match="lw"):
        fit(reps, signs, shrinkage="lw")
    with pytest.raises(BadValue, match="cutoff"):
        fit(reps, signs, cutoff=1.0)
