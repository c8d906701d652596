"""Divergences against their formulas in float64 numpy, and what must hold for each of them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, special, stats

from divergences import CODES, codebooks, divergence
from holdfast.core import registry
from holdfast.runtime.errors import UnknownName, Unsupported

NAMES = sorted(registry.names("divergences"))


def cosine(a, b):
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return 1 - np.divide((a * b).sum(1), norms, out=np.zeros(len(a)), where=norms > 0)


def wasserstein(a, b):
    """From the formula for any two Gaussians: |μ_a-μ_b|² + tr(A + B - 2 (√A B √A)^½)."""
    half = a.shape[1] // 2
    found = []
    for x, y in zip(a, b, strict=True):
        first, second = np.diag(np.exp(x[half:])), np.diag(np.exp(y[half:]))
        root = linalg.sqrtm(first)
        spread = np.trace(first + second - 2 * linalg.sqrtm(root @ second @ root)).real
        found.append(np.sqrt(((x[:half] - y[:half]) ** 2).sum() + spread))
    return np.array(found)


def coded(a, b):
    """Each coordinate of b to the nearest of three numbers, one at a time."""
    books = np.load(codebooks(a.shape[1]))[:, :, 0]
    near = [[books[place][np.abs(books[place] - number).argmin()] for place, number in enumerate(row)] for row in b]
    return ((a - near) ** 2).sum(1)


FORMULAS = {
    "l2": lambda a, b: np.sqrt(((a - b) ** 2).sum(1)),
    "squared_l2": lambda a, b: ((a - b) ** 2).sum(1),
    "l1": lambda a, b: np.abs(a - b).sum(1),
    "linf": lambda a, b: np.abs(a - b).max(1),
    "cosine": cosine,
    "kl": lambda a, b: stats.entropy(special.softmax(b, 1), special.softmax(a, 1), axis=1),
    "wasserstein": wasserstein,
    "dot": lambda a, b: -np.einsum("ij,ij->i", a, b),
    "hamming": lambda a, b: np.array([sum((x > 0) != (y > 0) for x, y in zip(*pair)) for pair in zip(a, b)]),  # noqa: B905
    CODES: coded,
}


def draw(seed: int, rows: int = 5, dim: int = 6) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, dim)), random.normal(size=(rows, dim))


def test_every_divergence_has_a_formula_here() -> None:
    assert set(FORMULAS) == set(registry.names("divergences"))


@pytest.mark.parametrize("name", NAMES)
def test_formula(name) -> None:
    a, b = draw(0)
    found = divergence(name)(torch.tensor(a), torch.tensor(b)).numpy()
    np.testing.assert_allclose(found, FORMULAS[name](a, b), rtol=1e-9)
    single = divergence(name)(torch.tensor(a[0]), torch.tensor(b[0]))
    assert float(single) == pytest.approx(found[0])


def test_hand_computed_values() -> None:
    a, b = torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]])
    expected = {"l2": 5, "squared_l2": 25, "l1": 7, "linf": 4, "cosine": 1}
    assert {name: float(divergence(name)(a, b)) for name in expected} == expected
    # μ = 3 and 0, σ² = e⁰ and e^(2 log 5): W² = 9 + (1 - 5)² = 25
    assert float(divergence("wasserstein")(a, torch.tensor([[0.0, 2 * np.log(5)]]))) == pytest.approx(5)
    # softmax (¾, ¼) as the reference b, (½, ½) as a: ¾ log(3/2) + ¼ log(1/2); not symmetric
    even, odd = torch.tensor([[0.0, 0.0]]), torch.tensor([[np.log(3.0), 0.0]])
    assert float(divergence("kl")(even, odd)) == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    assert float(divergence("kl")(odd, even)) == pytest.approx(0.5 * np.log(2 / 3) + 0.5 * np.log(2))


def test_zero_vectors_are_at_right_angles_to_everything() -> None:
    zero, one = torch.zeros(1, 3), torch.ones(1, 3)
    assert [float(divergence("cosine")(*pair)) for pair in ((zero, one), (one, zero), (zero, zero))] == [1, 1, 1]
    assert float(divergence("cosine")(one, -one)) == pytest.approx(2)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [name for name in NAMES if not divergence(name).signed])
@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(seed=st.integers(0, 10**6), exponent=st.floats(-9, 1))
def test_never_negative_and_zero_only_at_itself(name, dtype, seed, exponent) -> None:
    a, b = (torch.tensor(x) for x in draw(seed))
    near = (a + 10**exponent * b).to(dtype)
    a = a.to(dtype)
    assert (divergence(name)(near, a) >= 0).all()
    if name == "cosine":
        assert (divergence(name)(a, a) == 0).all()
        assert (divergence(name)(a, near) <= 2 + 1e-6).all()
    if name != CODES:  # what is kept of an image is not the image
        assert (divergence(name)(a, a.clone()) == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_gradient(name) -> None:
    a, b = (torch.tensor(x) for x in draw(1))
    assert torch.autograd.gradcheck(lambda x: divergence(name).pursue(x, b), a.requires_grad_())


@pytest.mark.parametrize("at", ["itself", "zero"])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_finite_everywhere(name, at) -> None:
    a = torch.zeros(3, 4) if at == "zero" else torch.arange(12.0).reshape(3, 4)
    x = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(divergence(name).pursue(x, a).sum(), x)
    assert torch.isfinite(gradient).all()


def test_what_attacks_pursue_of_bits_is_a_smooth_stand_in() -> None:
    """It has a gradient, which pulls bits over, and equals the distance where coordinates are far from 0."""
    a, b = torch.tensor([[3.0, -2.0, 0.1]]), torch.tensor([[0.3, 0.2, 0.1]])
    x = a.clone().requires_grad_()
    value = divergence("hamming").pursue(x, b)
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert (gradient < 0).all()  # towards the bits of b, which are all set, it falls
    assert float(divergence("hamming").pursue(100 * a[:, :2], b[:, :2])) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["cosine", "kl"])
def test_small_steps_are_not_lost(name) -> None:
    """Near itself these are quadratic forms; the gradient must survive where the float32 value is all rounding."""
    a = torch.tensor([[0.3, -1.2, 0.8, 2.0]])
    x = (a + torch.tensor([[1e-4, -2e-4, 1e-4, 0.0]])).requires_grad_()
    (found,) = torch.autograd.grad(divergence(name)(x, a).sum(), x)
    exact = x.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(divergence(name)(exact, a.double()).sum(), exact)
    torch.testing.assert_close(found.double(), expected, rtol=0.02, atol=1e-7)


def test_wasserstein_needs_pairs_of_features() -> None:
    with pytest.raises(Unsupported, match="got 3"):
        divergence("wasserstein")(torch.zeros(1, 3), torch.zeros(1, 3))


def test_unknown_names_suggest() -> None:
    with pytest.raises(UnknownName, match=r"'wasserstein'\?"):
        divergence("wasserstien")


@pytest.mark.parametrize("dim", [1, 33, 64])
def test_cosine_of_many_pairs_is_that_of_each(dim: int) -> None:
    """More pairs than are held at once: to the bit what a few of them have, zero vectors and equal ones among them."""
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 9001, dim, generator=draw)
    a[0], b[8999], b[4096] = 0, 0, a[4096]
    distance = divergence("cosine")
    few = [distance(*rows) for rows in zip(a.split(100), b.split(100), strict=True)]
    assert torch.equal(distance(a, b), torch.cat(few))
