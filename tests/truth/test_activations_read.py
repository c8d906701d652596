"""Every activation as torch exports it: read as what it is, and no image beats a certificate of a network with it."""

from collections.abc import Callable
from functools import lru_cache

import pytest
import torch
import torch.nn.functional as F
from certified_problems import budgeted
from torch import Tensor, nn

from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds import activations
from holdfast.numerics.bounds.relu import Relu
from holdfast.numerics.bounds.smooth import Smooth
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotCertified

Function = Callable[[Tensor], Tensor]

READ: dict[str, tuple[Function, str]] = {
    "exp": (lambda z: torch.exp(z / 3), "EXP"), "expm1": (lambda z: torch.expm1(z / 3), "EXP"),
    "two to the": (lambda z: 2 ** (z / 2), "EXP"), "reciprocal": (lambda z: 1 / (z + 9), "RECIPROCAL"),
    "sqrt": (lambda z: (z + 9).sqrt(), "SQRT"), "rsqrt": (lambda z: (z + 9).rsqrt(), "RSQRT"),
    "log": (lambda z: (z + 9).log(), "LOG"), "log1p": (lambda z: (z + 9).log1p(), "LOG"),
    "square": (lambda z: torch.square(z / 3), "SQUARE"), "squared": (lambda z: (z / 3) ** 2, "SQUARE"),
    "times itself": (lambda z: (y := z / 3) * y, "SQUARE"), "cube": (lambda z: (z / 3) ** 3, "cube"),
    "to the -2": (lambda z: (z + 9) ** -2, ""), "to the 1.5": (lambda z: (z / 9 + 1) ** 1.5, ""),
    "erf": (torch.erf, "ERF"), "tanh": (torch.tanh, "TANH"), "sigmoid": (torch.sigmoid, "SIGMOID"),
    "GELU": (F.gelu, "GELU"), "mish": (F.mish, "MISH"), "SELU": (F.selu, "SELU"),
    "GELU by tanh": (lambda z: F.gelu(z, approximate="tanh"), "GELU_TANH"), "SiLU": (F.silu, "SILU"),
    "GELU by erf": (lambda z: z * 0.5 * (1 + torch.erf(z / 2**0.5)), "GELU"),
    "GELU, the half last": (lambda z: z * (torch.erf(z * 0.5**0.5) + 1) / 2, "GELU"),
    "SiLU by sigmoid": (lambda z: torch.sigmoid(z) * z, "SILU"), "softsign": (F.softsign, "SOFTSIGN"),
    "tanhshrink": (F.tanhshrink, "TANHSHRINK"), "hardswish": (F.hardswish, "HARDSWISH"),
    "hardswish by ReLU6": (lambda z: z * F.relu6(z + 3) / 6, "HARDSWISH"),
    "hardswish by hardsigmoid": (lambda z: z * F.hardsigmoid(z), "HARDSWISH"), "CELU": (lambda z: F.celu(z, 0.5), ""),
    "ELU": (F.elu, ""), "ELU of 2": (lambda z: F.elu(z, 2.0), ""), "softplus": (F.softplus, "SOFTPLUS"),
    "softplus of 3": (lambda z: F.softplus(z, 3.0), "SOFTPLUS"), "log sigmoid": (F.logsigmoid, "SOFTPLUS"),
    "abs": (torch.abs, "ReLU"), "hardsigmoid": (F.hardsigmoid, "ReLU"), "ReLU6": (F.relu6, "ReLU"),
    "leaky ReLU of -½": (lambda z: F.leaky_relu(z, -0.5), "ReLU"),
    "leaky ReLU of 2": (lambda z: F.leaky_relu(z, 2.0), "ReLU"), "softshrink": (F.softshrink, "ReLU"),
    "PReLU": (lambda z: F.prelu(z, torch.tensor([2.0, -0.3]).to(z)), "ReLU"),
    "threshold": (lambda z: F.threshold(z, 0.1, 0.1), "ReLU"),
    "maximum": (lambda z: torch.maximum(z, 0.2 * z + 0.1), "ReLU"),
    "minimum": (lambda z: torch.minimum(z, torch.tensor(0.3).to(z)), "ReLU"),
}  # fmt: skip
"""The activation, and the curve that it is read as."""


class Activation(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z)


def encoder_with(function: Function, seed: int = 0, spread: float = 3.0) -> Encoder:
    """Return two convolutions and a matrix around two activations, of images [1, 3, 3]."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Conv2d(1, 2, 2), Activation(function), nn.Conv2d(2, 2, 2), Activation(function),
            nn.Flatten(), nn.Linear(2, 2),
        ).eval()  # fmt: skip
    for layer in (network[0], network[2]):
        assert isinstance(layer, nn.Conv2d)
        layer.weight.data *= spread / layer.weight.data.abs().sum((1, 2, 3), keepdim=True)
    return Encoder(network, mean=0.5, std=0.5)


@lru_cache
def encoder_of(name: str) -> Encoder:
    """One for all tests, so that it is traced once."""
    return encoder_with(READ[name][0], seed=1)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", READ)
def test_an_activation_is_read_as_what_it_is(name: str) -> None:
    curve = READ[name][1]
    operations = [node.operation for node in trace(encoder_of(name), (1, 3, 3)).nodes]
    curves = [operation for operation in operations if isinstance(operation, (Smooth, Relu))]
    if curve == "ReLU":
        assert curves
        assert all(isinstance(operation, Relu) for operation in curves)
    else:
        assert len(curves) == (4 if name == "to the -2" else 2)
        if curve:
            expected = activations.power(3.0) if curve == "cube" else getattr(activations, curve)
            assert all(operation is expected for operation in curves)


@pytest.mark.parametrize(
    "function",
    [
        F.hardshrink, lambda z: F.threshold(z, 0.1, 0.5), lambda z: F.elu(z, -1.0), lambda z: F.softplus(z, 1.0, 5.0),
        lambda z: z**z, lambda z: torch.sin(z),
    ],
)  # fmt: skip
def test_what_cannot_be_bounded_is_refused_by_name(function: Function) -> None:
    with pytest.raises(NotCertified, match="Activation"):
        trace(encoder_with(function), (1, 3, 3))


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", READ)
def test_no_image_beats_a_certificate(name: str) -> None:
    """Against 1,000 images of each box."""
    bounds, least = bounds_and_least(name, Linf(1.0), {"interval", "crown"}, points=1000)
    assert bool(torch.isfinite(bounds["crown"]).all())
    assert bool((least - bounds["crown"])[0].max() < 0.2 * (1 + least[0].abs().max()))


@pytest.mark.slow
@pytest.mark.parametrize("ball", [Linf(1.0), L2(1.0)], ids=["linf", "l2"])
@pytest.mark.parametrize("name", READ)
def test_no_image_beats_any_certificate(name: str, ball: Linf | L2) -> None:
    """Against 4,000 images of each ball; in the smallest α-CROWN proves no less than CROWN."""
    bounds, _ = bounds_and_least(name, ball, {"interval", "crown_ibp", "crown", "alpha_crown"}, points=4000)
    crown = bounds["crown"][0]
    assert bool((bounds["alpha_crown"][0] >= crown - 1e-6 * (1 + crown.abs())).all())


def bounds_and_least(name: str, ball: Linf | L2, certifiers: set[str], points: int) -> tuple[dict[str, Tensor], Tensor]:
    """Return bounds at three radii and the smallest margins of images, which none may exceed."""
    encoder = encoder_of(name)
    radii = torch.tensor([0.01, 0.1, 0.4], dtype=torch.float64)
    x = torch.rand(3, 1, 3, 3, generator=torch.Generator().manual_seed(2))
    margin = Margin(torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(3)), torch.zeros(3, 2))
    least = least_of(encoder, margin, x, ball, radii, points)
    bounds = {c: budgeted(c)(encoder, margin, x, ball, radii).lower for c in certifiers}
    for certifier, lower in bounds.items():
        assert bool((lower <= least + 1e-12 * (1 + least.abs())).all()), certifier
    return bounds, least


def least_of(encoder: Encoder, margin: Margin, x: Tensor, ball: Linf | L2, radii: Tensor, points: int) -> Tensor:
    """Return the smallest margins among images of each ball, corners and the sphere among them."""
    kind = {"generator": torch.Generator().manual_seed(4), "dtype": torch.float64}
    step = torch.randn(points, *x.shape[1:], **kind)
    if isinstance(ball, Linf):
        step[::2] = step[::2].sign()
        step = step.clamp(-1, 1)
    else:
        step = (
            step
            / step.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
            * torch.rand(points, 1, 1, 1, **kind).mul(2).clamp_max(1)
        )
    network = trace(encoder, tuple(x.shape[1:]))
    least = []
    for i, radius in enumerate(radii):
        reps = network((x[i].double() + radius * step).clamp(0, 1))
        least.append((reps @ margin.weights[i].double().T).amin(0) + margin.bias[i].double())
    return torch.stack(least)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("function", [torch.log, torch.sqrt, torch.reciprocal, torch.rsqrt])
@pytest.mark.parametrize("name", ["interval", "crown_ibp", "crown", "alpha_crown"])
def test_beyond_its_domain_an_activation_proves_nothing(name: str, function: Function) -> None:
    """Where its input leaves the domain for some image of the ball, there is no number and the bound is vacuous."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(1, 1), Activation(function), nn.Linear(1, 1)).eval()
    for layer in (network[1], network[3]):
        assert isinstance(layer, nn.Linear)
        layer.weight.data.fill_(1.0)
        layer.bias.data.fill_(0.25)
    x, margin = torch.full((1, 1, 1, 1), 0.5), Margin(torch.ones(1, 1, 1), torch.zeros(1, 1))
    for mean in (0.0, 0.4):  # z is in [0.45, 1.05] and [0.05, 0.65]; that z is -0.15 for other images changes nothing
        inside = budgeted(name)(Encoder(network, mean=mean, std=1), margin, x, Linf(0.3))
        ends = function(torch.tensor([0.45 - mean, 1.05 - mean], dtype=torch.float64))
        assert bool(torch.isfinite(inside.lower).all())
        assert inside.lower.item() <= ends.min().item() + 0.25 + 1e-6
    outside = budgeted(name)(Encoder(network, mean=0.5, std=1), margin, x, Linf(0.3))
    assert outside.lower.item() == -torch.inf
    assert bool(outside.vacuous.all())
