"""The exact minimum against closed forms, enumeration, dense sampling and strong attacks."""

import itertools

import numpy as np
import pytest
import torch
from exact import Residual, affine_map, exact_minimum
from scipy.optimize import linprog
from tiny_networks import RELU_NETWORKS, SHAPES, images, make, rows
from torch import Tensor, nn

NORMS = ("linf", "l2")


def step_within(norm: str, x: Tensor, moved: Tensor, radius: float) -> Tensor:
    """Bring images [N, C, H, W] back into the ball around x [C, H, W] and into the box, in float64."""
    delta = moved - x
    if norm == "linf":
        delta = delta.clamp(-radius, radius)
    else:
        delta = delta * (radius / delta.flatten(1).norm(dim=1).clamp_min(1e-300).view(-1, 1, 1, 1)).clamp_max(1)
    return (x + delta).clamp(0, 1)


def descend(network: nn.Module, weights: Tensor, x: Tensor, radius: float, norm: str, starts: int = 256) -> float:
    """The smallest margin that many projected descents in float64 find."""
    network, x = network.double().requires_grad_(False), x.double()
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(starts, *x.shape, generator=generator, dtype=torch.float64)
    at = step_within(norm, x, x + noise * radius, radius)
    best = float("inf")
    for count in range(40):
        at = at.detach().requires_grad_()
        margins = network(at) @ weights.double()
        best = min(best, float(margins.detach().min()))
        (gradient,) = torch.autograd.grad(margins.sum(), at)
        size = gradient.abs() if norm == "linf" else gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        at = step_within(norm, x, at - 0.5 * 0.88**count * radius * gradient / size.clamp_min(1e-300), radius)
    return best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(4))
def test_linear_functions_in_closed_form(norm: str, seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.Linear(6, 4).double().requires_grad_(False)
    network = nn.Sequential(nn.Flatten(), layer)
    x, weights = torch.rand(1, 2, 3).double() * 0.4 + 0.3, torch.randn(4).double()
    slope = layer.weight.T @ weights
    reach = slope.abs().sum() if norm == "linf" else slope.norm()
    found = exact_minimum(network, weights, 0.7, x, 0.2, norm)
    expected = float(weights @ network(x[None])[0] + 0.7 - 0.2 * reach)
    assert found.value == pytest.approx(expected, abs=1e-8)
    assert found.bound == pytest.approx(expected, abs=1e-6)


def test_one_neuron_on_a_line() -> None:
    """relu(2x - 1) - x is -x up to a half and x - 1 after it: least, -1/2, at 1/2."""
    first, last = nn.Linear(1, 1), nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        first.weight[:], first.bias[:], last.weight[:] = 2, -1, 1
    identity = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        identity.weight[:] = -1
    network = nn.Sequential(nn.Flatten(), Residual(nn.Sequential(first, nn.ReLU(), last), identity))
    for start, radius, least in ((0.3, 0.1, -0.4), (0.3, 0.5, -0.5), (0.9, 0.2, -0.3), (0.0, 0.25, -0.25)):
        for norm in NORMS:
            found = exact_minimum(network, torch.ones(1), 0.0, torch.full((1, 1, 1), start), radius, norm)
            assert found.value == pytest.approx(least, abs=1e-6), (start, radius, norm)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(6))
def test_two_pixels_and_three_neurons_by_a_fine_grid(norm: str, seed: int) -> None:
    torch.manual_seed(seed)
    first, last = nn.Linear(2, 3), nn.Linear(3, 2)
    first.weight.data *= 3
    network = nn.Sequential(nn.Flatten(), first, nn.ReLU(), last).double().requires_grad_(False)
    x, weights, radius = torch.rand(1, 1, 2).double(), torch.randn(2).double(), 0.4
    axis = torch.linspace(-1, 1, 801).double() * radius
    steps = torch.cartesian_prod(axis, axis).view(-1, 1, 1, 2)
    if norm == "l2":
        steps = steps[steps.flatten(1).norm(dim=1) <= radius]
    grid = (network((x + steps).clamp(0, 1)) @ weights).min()
    found = exact_minimum(network, weights, 0.0, x, radius, norm)
    slope = torch.linalg.matrix_norm(first.weight, 2) * torch.linalg.matrix_norm(last.weight, 2)
    assert found.value <= float(grid) + 1e-9
    assert found.value >= float(grid - slope * weights.norm() * 0.002 * radius * 2)


@pytest.mark.parametrize("seed", range(5))
def test_every_pattern_of_three_neurons(seed: int) -> None:
    """On each of the 2³ pieces the margin is linear: a linear program each, and the least of them, is the minimum."""
    torch.manual_seed(seed)
    front, back = nn.Linear(4, 3), nn.Linear(3, 2)
    network = nn.Sequential(nn.Flatten(), front, nn.ReLU(), back).double().requires_grad_(False)
    x, weights, radius = torch.rand(1, 2, 2).double(), torch.randn(2).double(), 0.5
    first, shift = front.weight.numpy(), front.bias.numpy()
    cost, constant = (weights @ back.weight).numpy(), float(weights @ back.bias)
    start = x.flatten().numpy()
    box = list(zip(np.maximum(start - radius, 0), np.minimum(start + radius, 1), strict=True))
    least = np.inf
    for pattern in itertools.product((0, 1), repeat=3):
        on, sign = np.array(pattern), 1 - 2 * np.array(pattern)
        piece = linprog((cost * on) @ first, A_ub=sign[:, None] * first, b_ub=-sign * shift, bounds=box)
        if piece.status == 0:
            least = min(least, piece.fun + float((cost * on) @ shift) + constant)
    assert exact_minimum(network, weights, 0.0, x, radius, "linf").value == pytest.approx(least, abs=1e-7)


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("name", "norm"),
    [  # every third network, the norms in turn; all in long runs
        pytest.param(name, norm, marks=[pytest.mark.slow] * (row % 3 > 0 or (row + column) % len(NORMS) > 0))
        for row, name in enumerate(RELU_NETWORKS)
        for column, norm in enumerate(NORMS)
    ],
)
def test_strong_attacks_reach_it_and_never_pass_it(name: str, norm: str) -> None:
    reached = 0
    x = images(6, SHAPES[name], seed=3)
    weights = rows(6, 1, 3, seed=4)[0][:, 0]
    for number, radius in enumerate((0.03, 0.1, 0.2, 0.3, 0.5, 0.8)):
        network = make(name, RELU_NETWORKS[name], seed=number).double()
        radius = radius * (2 if norm == "l2" else 1)
        found = exact_minimum(network, weights[number], 0.0, x[number], radius, norm)
        attacked = descend(network, weights[number], x[number], radius, norm)
        assert found.bound - 1e-7 <= found.value <= attacked + 1e-7
        assert step_within(norm, x[number].double(), found.image[None], radius)[0].sub(found.image).abs().max() < 1e-12
        assert float(weights[number].double() @ network(found.image[None])[0]) == pytest.approx(found.value, abs=1e-9)
        start = float(weights[number].double() @ network(x[number][None].double())[0])
        reached += start - attacked >= 0.98 * (start - found.value)
    assert reached >= 4, f"the attacks came near the minimum {reached} times out of 6"


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "layer", [nn.MaxPool2d(2, 1), nn.MaxPool2d(3, 2, 1), nn.LeakyReLU(0.1), nn.ReLU6()], ids=lambda x: str(x)
)
def test_other_piecewise_linear_layers(layer: nn.Module, norm: str) -> None:
    torch.manual_seed(5)
    first, x, weights = nn.Conv2d(1, 1, 2), torch.rand(1, 3, 4).double(), torch.randn(2).double()
    first.weight.data *= 12
    head = nn.Linear(layer(torch.zeros(1, 1, 2, 3)).numel(), 2)
    network = nn.Sequential(first, layer, nn.Flatten(), head).double().requires_grad_(False)
    radius = 0.4 if norm == "linf" else 1.0
    found = exact_minimum(network, weights, 0.0, x, radius, norm)
    attacked, start = descend(network, weights, x, radius, norm), float(weights @ network(x[None])[0])
    assert found.bound - 1e-6 <= found.value <= attacked + 1e-7
    assert start - attacked >= 0.9 * (start - found.value)


def test_layers_that_are_not_affine_are_refused() -> None:
    with pytest.raises(ValueError, match="neither affine"):
        affine_map(nn.Tanh(), (3,))
