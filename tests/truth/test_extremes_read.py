"""Maxima along axes, log softmax and others that are read from several parts: no image beats their certificates."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from certified_problems import budgeted
from torch import Tensor, nn

from holdfast.core import Encoder, Margin
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import NotCertified

Function = Callable[[Tensor], Tensor]

FUNCTIONS: dict[str, Function] = {
    "amax": lambda z: z.amax(1), "amax of two axes": lambda z: z.amax((2, 3), keepdim=True),
    "max": lambda z: z.max(dim=1).values, "amin": lambda z: z.amin(-1), "min": lambda z: z.min(2, keepdim=True)[0],
    "adaptive max": lambda z: F.adaptive_max_pool2d(z, (2, 1)), "logsumexp": lambda z: z.logsumexp(1),
    "logsumexp of two axes": lambda z: z.logsumexp((1, -1)), "log softmax": lambda z: z.log_softmax(1),
    "log softmax of the last": lambda z: F.log_softmax(z, -1), "softmin": lambda z: F.softmin(z, 1),
    "GLU": lambda z: F.glu(z, 3),
    "bicubic": lambda z: F.interpolate(z, (3, 7), mode="bicubic"),
    "bicubic at corners": lambda z: F.interpolate(z, (5, 2), mode="bicubic", align_corners=True),
    "antialiased": lambda z: F.interpolate(z, (3, 2), mode="bicubic", antialias=True),
}  # fmt: skip


class Of(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x).reshape(len(x), -1)


def encoder_of(function: Function) -> Encoder:
    """Return a convolution, the function and a matrix, of images [1, 5, 5]."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        convolution = nn.Sequential(nn.Conv2d(1, 3, 2), Of(function))
        width = convolution(torch.zeros(1, 1, 5, 5)).shape[1]
        network = nn.Sequential(convolution, nn.Linear(width, 3)).eval()
        for values in convolution[0].parameters():
            values.data *= 4
    return Encoder(network, mean=0.5, std=0.5)


VARIANTS = ("amax of two axes", "min", "logsumexp of two axes", "log softmax of the last", "bicubic at corners")
"""Of functions that are asked otherwise: for long runs."""


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in VARIANTS)) for n in FUNCTIONS])
def test_no_image_beats_a_certificate(name: str) -> None:
    encoder = encoder_of(FUNCTIONS[name])
    network, draw = trace(encoder, (1, 5, 5)), torch.Generator().manual_seed(1)
    radii = torch.tensor([0.01, 0.1, 0.4], dtype=torch.float64)
    x = torch.rand(3, 1, 5, 5, generator=draw)
    margin = Margin(torch.randn(3, 4, 3, generator=draw), torch.zeros(3, 4))
    step = torch.randn(1000, 1, 5, 5, dtype=torch.float64, generator=draw)
    steps = {Linf(1.0): step.sign(), L2(1.0): step / step.flatten(1).norm(dim=1).view(-1, 1, 1, 1)}
    for ball, directions in steps.items():
        images = (x.double()[:, None] + radii.view(-1, 1, 1, 1, 1) * directions).clamp(0, 1)
        reps = network(images.flatten(0, 1)).unflatten(0, (3, -1))
        least = (reps @ margin.weights.double().mT).amin(1)
        for certifier in ("interval", "crown_ibp", "crown", "alpha_crown"):
            lower = budgeted(certifier)(encoder, margin, x, ball, radii).lower
            assert bool((lower <= least + 1e-12 * (1 + least.abs())).all()), certifier
            if certifier == "crown":
                assert bool((least - lower)[0].max() < 0.05 * (1 + least[0].abs().max()))


def test_a_certificate_of_what_is_linear_is_exact() -> None:
    """The weights of bicubic interpolation have both signs: the worst corner is reached."""
    encoder = encoder_of(FUNCTIONS["bicubic"])
    x = torch.full((1, 1, 5, 5), 0.5)
    margin = Margin(torch.ones(1, 1, 3), torch.zeros(1, 1))
    pixels = x.double().requires_grad_()
    value = trace(encoder, (1, 5, 5))(pixels).sum()
    gradient = torch.autograd.grad(value, pixels)[0]
    least = float(value.detach() - 0.1 * gradient.abs().sum())
    for certifier in ("crown_ibp", "crown"):
        lower = float(budgeted(certifier)(encoder, margin, x, Linf(0.1)).lower)
        assert lower == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda z: z.max(1).indices.double(), "the places of the largest or smallest values"),
        (lambda z: F.adaptive_max_pool2d(z, 3), "which does not divide it"),
        (lambda z: z.sort(1).values, "sort"), (lambda z: z.topk(2, 1).values, "topk"),
        (lambda z: z.cumprod(1), "cumprod"),
    ],
)  # fmt: skip
def test_the_rest_is_refused_by_the_name_of_the_layer(function: Function, words: str) -> None:
    with pytest.raises(NotCertified, match=rf"0\.1 .*{words}") as error:
        trace(encoder_of(function), (1, 5, 5))
    assert "\n" not in str(error.value)
