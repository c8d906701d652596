"""Ranges behind several affine layers in a row: their closed form is known, padding included."""

import pytest
import torch
from torch import nn

from holdfast.core import Ball, Encoder
from holdfast.numerics.bounds.backward import Region
from holdfast.numerics.bounds.ranges import ranges_inside
from holdfast.numerics.bounds.trace import trace
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf

SIZE = (2, 7, 6)


class Both(nn.Module):
    def __init__(self, one: nn.Module, other: nn.Module):
        super().__init__()
        self.one, self.other = one, other

    def forward(self, x):
        return self.one(x) + self.other(x)


def conv(*args: int, **options: int) -> nn.Conv2d:
    return nn.Conv2d(*args, **options)  # type: ignore[arg-type]


LAYERS = {
    "two padded": lambda: [conv(2, 3, 3, padding=1), conv(3, 3, 3, padding=1)],
    "three padded": lambda: [conv(2, 3, 2, padding=1), conv(3, 2, 3, padding=2, stride=2), conv(2, 3, 2, padding=1)],
    "depthwise": lambda: [conv(2, 4, 3, padding=1), conv(4, 4, 3, padding=1, groups=4), conv(4, 3, 1, padding=1)],
    "zeros around": lambda: [nn.ZeroPad2d((1, 2, 0, 1)), conv(2, 3, 3), nn.ZeroPad2d((2, 0, 1, 1)), conv(3, 3, 2)],
    "residual": lambda: [Both(conv(2, 3, 3, padding=1), conv(2, 3, 5, padding=2)), conv(3, 3, 3, padding=1)],
    "pooled": lambda: [conv(2, 3, 3, padding=1), nn.AvgPool2d(3, 2, 1, ceil_mode=True), conv(3, 3, 3, padding=1)],
}


@pytest.mark.parametrize("ball", [Linf(0.03), L2(0.3)], ids=["linf", "l2"])
@pytest.mark.parametrize("layers", LAYERS)
def test_open_signs_have_their_exact_range(layers: str, ball: Ball) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        affine = nn.Sequential(*LAYERS[layers]())
        network = trace(Encoder(nn.Sequential(affine, nn.ReLU(), nn.Flatten()), mean=0, std=1), SIZE).double
        x = 0.4 + 0.2 * torch.rand(2, *SIZE, dtype=torch.float64)  # the ball does not meet the pixel box
    region = Region.around(ball, x, torch.full((2,), ball.radius, dtype=torch.float64))
    (low, high), *more = ranges_inside(network, region).values()
    assert not more
    affine.double()
    matrix = torch.func.jacrev(affine)(x[:1])[0, :, :, :, 0].flatten(3)
    reach = ball.radius * (matrix.abs().sum(-1) if isinstance(ball, Linf) else matrix.norm(dim=-1))
    centre = affine(x).detach()
    is_open = centre.abs() < reach
    assert is_open.any()
    assert not is_open.all()
    torch.testing.assert_close(low[is_open], (centre - reach)[is_open], rtol=0, atol=1e-10)
    torch.testing.assert_close(high[is_open], (centre + reach)[is_open], rtol=0, atol=1e-10)
    assert bool((low <= centre - reach + 1e-10).all())
    assert bool((high >= centre + reach - 1e-10).all())
