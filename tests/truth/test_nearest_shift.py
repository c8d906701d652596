"""The nearest point of a ball in units of the noise: against a convex solver, and by the conditions of optimality."""

import math

import numpy as np
import pytest
import scipy.sparse as sparse
import scs
import torch
from scipy.optimize import lsq_linear

from holdfast.numerics.gaussian_classes.nearest_shift import dual_norm, length, nearest_shift, weights_along
from holdfast.runtime.errors import BadValue, Unsupported


def problems(count: int, spread: float, seed: int = 0, largest: int = 8):
    """Random means, variances over 2 · spread decades, and radii from well inside to beyond the mean."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        k = int(random.integers(1, largest + 1))
        mu, values = random.normal(size=k), 10 ** random.uniform(-spread, spread, k)
        yield torch.from_numpy(mu), torch.from_numpy(values), float(random.uniform(0.02, 1.1))


def by_solver(mu: torch.Tensor, values: torch.Tensor, radius: float, norm: float, eps: float = 1e-9) -> np.ndarray:
    """SCS on the quadratic over a second-order cone, or a box; in units in which the cost is of size 1."""
    k = len(mu)
    precision = (values.min() / values).numpy()
    data = {"P": sparse.diags(precision, format="csc"), "c": -(precision * mu.numpy())}
    if norm == 2:
        data |= {"A": sparse.vstack([sparse.csc_matrix((1, k)), -sparse.eye(k)], format="csc")}
        data |= {"b": np.r_[radius, np.zeros(k)]}
        cone = {"q": [k + 1]}
    else:
        data |= {"A": sparse.vstack([sparse.eye(k), -sparse.eye(k)], format="csc"), "b": np.full(2 * k, radius)}
        cone = {"l": 2 * k}
    solved = scs.SCS(data, cone, eps_abs=eps, eps_rel=eps, eps_infeas=1e-14, max_iters=100_000, verbose=False)
    found = solved.solve()
    assert found["info"]["status"] == "solved"
    return found["x"]


@pytest.mark.parametrize("norm", [2.0, math.inf])
@pytest.mark.parametrize("count", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_agrees_with_a_convex_solver(count: int, norm: float) -> None:
    inside = 0
    for mu, values, part in problems(count, spread=1.0):
        radius = part * float(length(mu, norm))
        z = nearest_shift(mu, values, torch.tensor(radius), norm)
        inside += part >= 1
        assert np.abs(z.numpy() - by_solver(mu, values, radius, norm)).max() < 1e-6
    assert 0.04 * count < inside < 0.2 * count


@pytest.mark.slow
@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_agrees_with_a_convex_solver_on_large_problems(norm: float) -> None:
    for mu, values, part in problems(100, spread=1.5, seed=1, largest=200):
        radius = part * float(length(mu, norm))
        z = nearest_shift(mu, values, torch.tensor(radius), norm)
        assert np.abs(z.numpy() - by_solver(mu, values, radius, norm, 1e-11)).max() < 1e-6


def residual(mu: torch.Tensor, values: torch.Tensor, radius: torch.Tensor, norm: float) -> tuple[float, float]:
    """How far |z| + tλ|z|^(p-1) = |μ| is from holding with one t a row, in units of μ; how far z is off the ball."""
    z = nearest_shift(mu, values, radius, norm)
    assert bool((z * mu >= 0).all())
    size = z.abs() / radius[:, None]
    slope = size ** (norm - 1)
    moved = mu.abs() - z.abs()
    t = (moved * size).sum(1) / (values * slope * size).sum(1)
    left = moved - t[:, None] * values * slope
    left = torch.where(z == 0, left.clamp_min(0), left.abs())  # p = 1 leaves small coordinates at 0
    return float((left / mu.abs().amax(1, keepdim=True)).max()), float((length(z, norm) / radius - 1).abs().max())


@pytest.mark.parametrize("norm", [1.0, 1.2, 1.5, 2.0, 3.0, 10.0, 100.0])
@pytest.mark.parametrize("spread", [0.0, 2.0, 8.0])
def test_conditions_of_optimality_hold(norm: float, spread: float) -> None:
    random = torch.Generator().manual_seed(0)
    draw = torch.rand(3, 40, 60, generator=random, dtype=torch.float64)
    mu = torch.randn(40, 60, generator=random, dtype=torch.float64) * 10 ** (4 * draw[0] - 2)
    mu[:, :3] = 0.0
    values = 10 ** (spread * (2 * draw[1] - 1))
    radius = length(mu, norm) * torch.logspace(-6, -1e-3, 40, dtype=torch.float64)
    stationary, feasible = residual(mu, values, radius, norm)
    assert stationary < 1e-11
    assert feasible < 1e-14


def test_other_norms_reach_their_limits() -> None:
    (mu, values, _) = next(problems(1, 1.0, seed=5))
    radius = torch.tensor(0.5) * mu.abs().max()
    for norm, limit in ((1 + 1e-9, 1.0), (2 + 1e-9, 2.0), (1e9, math.inf)):
        torch.testing.assert_close(
            nearest_shift(mu, values, radius, norm), nearest_shift(mu, values, radius, limit), atol=1e-7, rtol=0
        )


@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, math.inf])
def test_edges(norm: float) -> None:
    mu, values = torch.tensor([3.0, -4.0, 0.0]), torch.tensor([1.0, 2.0, 3.0])
    radii = torch.tensor([0.0, 1e-120, float(length(mu.double(), norm)), 1e9, math.inf])
    z = nearest_shift(mu.expand(5, -1), values, radii, norm)
    assert z.dtype == torch.float64
    torch.testing.assert_close(z, mu.double() * torch.tensor([0, 0, 1, 1, 1.0])[:, None])
    assert not nearest_shift(torch.zeros(2, 3), values, torch.ones(2), norm).any()


def test_radii_and_problems_are_solved_at_once() -> None:
    random = torch.Generator().manual_seed(0)
    mu, values = torch.randn(4, 1, 5, generator=random), torch.rand(4, 1, 5, generator=random) + 0.1
    radii = torch.rand(6, generator=random)
    together = nearest_shift(mu.expand(4, 6, 5), values, radii)
    for i in range(4):
        for j in range(6):
            torch.testing.assert_close(together[i, j], nearest_shift(mu[i, 0], values[i, 0], radii[j]))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("dimensions", [(6, 6), (8, 5)])
def test_boxes_of_the_original_space_against_a_solver(dimensions: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        vectors = np.linalg.qr(random.normal(size=dimensions))[0]
        half, values = random.normal(size=dimensions[1]), 10 ** random.uniform(-2, 0, dimensions[1])
        radii = np.array([0.1, 0.3, 0.6]) * np.abs(vectors @ half).max()
        found = weights_along(*map(torch.from_numpy, (half, vectors, values, radii)), math.inf)
        for weights, radius in zip(found.numpy(), radii, strict=True):
            white = vectors.T / np.sqrt(values)[:, None]
            solved = lsq_linear(white, half / np.sqrt(values), (-radius, radius), tol=1e-14)
            expected = (half - vectors.T @ solved.x) / values
            assert np.abs(weights - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 4.0, math.inf])
def test_balls_of_the_original_space_are_certified_by_the_gap(norm: float) -> None:
    random = torch.Generator().manual_seed(1)
    vectors = torch.linalg.qr(torch.randn(12, 12, generator=random, dtype=torch.float64)).Q
    half, values = torch.randn(12, generator=random, dtype=torch.float64), torch.logspace(-3, 0, 12).double()
    radii = length(vectors @ half, norm) * torch.tensor([0.05, 0.4, 0.9], dtype=torch.float64)
    weights = weights_along(half, vectors, values, radii, norm)
    shift = half - weights * values
    reach = radii * length(weights @ vectors.T, dual_norm(norm))
    assert bool((length(shift @ vectors.T, norm) <= radii * (1 + 1e-4)).all())
    assert bool(((reach - (weights * shift).sum(1)).abs() < 1e-9 * (weights.square() @ values)).all())
    if norm == 2:
        expected = (half - nearest_shift(half.expand(3, -1), values, radii)) / values
        torch.testing.assert_close(weights, expected, atol=1e-5 * float(expected.abs().max()), rtol=0)


def test_a_ball_that_reaches_the_mean_leaves_no_weight() -> None:
    vectors = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    half, values = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([1.0, 0.1], dtype=torch.float64)
    radius = length(vectors @ half, math.inf) * torch.tensor([0.2, 1.0, 2.0], dtype=torch.float64)
    left = weights_along(half, vectors, values, radius, math.inf).abs().amax(1)
    assert left[0] > 0.1
    assert left[1:].tolist() == [0, 0]  # to the bit


def test_what_has_no_answer_is_refused() -> None:
    mu, values, radius = torch.ones(2), torch.ones(2), torch.tensor(0.5)
    for norm in (0.5, -1.0, math.nan):
        with pytest.raises(BadValue, match="norm"):
            nearest_shift(mu, values, radius, norm)
    with pytest.raises(BadValue, match="variances"):
        nearest_shift(mu, torch.tensor([1.0, 0.0]), radius)
    with pytest.raises(BadValue, match="mean"):
        nearest_shift(torch.tensor([math.nan, 0.0]), values, radius)
    with pytest.raises(BadValue, match="radii >= 0"):
        nearest_shift(mu, values, torch.tensor(-0.5))


def test_variances_too_far_apart_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = torch.linalg.qr(torch.randn(40, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    apart = torch.logspace(-14, 0, 40).double()
    monkeypatch.setattr("holdfast.numerics.gaussian_classes.nearest_shift._STEPS", 25)
    with pytest.raises(Unsupported, match="ledoit_wolf"):
        weights_along(apart.sqrt(), vectors, apart, torch.tensor([1e-3], dtype=torch.float64), math.inf)
