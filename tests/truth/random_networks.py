"""Random small networks of every operation that bound propagation knows, for fuzz tests of certificates."""

import random

import torch
from exact import Residual
from random_blocks import random_block, random_curve
from torch import Tensor, nn

from holdfast.core import Encoder

DIM = 3


class Clamp(nn.Module):
    """Limits on one side or on both."""

    def __init__(self, low: float | None, high: float | None):
        super().__init__()
        self.low, self.high = low, high

    def forward(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high)


class Beside(nn.Module):
    """The input and what a block makes of it, side by side, less a constant."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.block(x)], dim=1).mul(0.7) - 0.1


def random_encoder(seed: int, products: bool = False) -> tuple[Encoder, tuple[int, int, int]]:
    """Return an encoder of `DIM` numbers drawn by a seed, and the shape of its images; every fifth one is affine.

    With `products`, none is affine, and half of all blocks and activations are those of `random_blocks`.
    """
    draw = random.Random(seed)
    affine = seed % 5 == 0 and not products
    channels, side = draw.choice([1, 2, 3]), draw.choice([3, 4, 5])
    shape = (channels, side, side)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers: list[nn.Module] = []
        for _ in range(draw.choice([1, 2, 2, 3])):
            kind = draw.choice(["conv", "conv", "norm", "pool", "residual", "beside"])
            if products and draw.random() < 0.5:
                block = random_block(draw, channels)
            else:
                block = _block(draw, kind, channels, side, affine)
            outer = nn.Sequential(*layers, block)(torch.zeros(2, *shape)).shape
            channels, side = outer[1], min(outer[2:])
            new = products and draw.random() < 0.5
            layers += [block, random_curve(draw, channels) if new else _curve(draw, affine)]
        width = nn.Sequential(*layers)(torch.zeros(2, *shape))[0].numel()
        layers += [nn.Flatten(), nn.Linear(width, 4), _curve(draw, affine), nn.Linear(4, DIM)]
        network = nn.Sequential(*layers).eval()
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                for values in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
                    assert values is not None
                    nn.init.uniform_(values, 0.3, 1.5)
            elif isinstance(layer, nn.Linear | nn.Conv2d):
                layer.weight.data *= draw.choice([1.0, 2.0])
                if layer.bias is not None:
                    layer.bias.data += draw.choice([0.0, 1.0])
    mean, std = draw.choice([(0.0, 1.0), (0.4914, 0.247), (0.5, 0.25)])
    return Encoder(network, mean=mean, std=std, name=f"random {seed}"), shape


def _block(draw: random.Random, kind: str, channels: int, side: int, affine: bool) -> nn.Module:
    if kind == "norm":
        return nn.BatchNorm2d(channels).eval()
    if kind == "pool" and side >= 3:
        pools = [nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(2)] + [nn.MaxPool2d(2, 1, 1), nn.MaxPool2d(2, 1)] * (
            not affine
        )
        return draw.choice(pools)
    if kind == "residual":
        inner = [_curve(draw, affine), nn.Conv2d(channels, channels, 3, padding=1)]
        return Residual(nn.Sequential(*inner))
    if kind == "beside":
        return Beside(nn.Conv2d(channels, 1, 3, padding=1))
    groups = channels if draw.random() < 0.3 else 1
    stride = draw.choice([1, 2]) if side > 3 else 1
    out = groups * draw.choice([1, 2])
    padding, bias = draw.choice([0, 1]) if side >= 3 else 1, draw.random() < 0.7
    return nn.Conv2d(channels, out, min(3, side), stride=stride, padding=padding, groups=groups, bias=bias)


def _curve(draw: random.Random, affine: bool) -> nn.Module:
    if affine:
        return nn.Identity()
    return draw.choice(
        [
            nn.ReLU(), nn.ReLU(), nn.ReLU(), nn.LeakyReLU(0.1), nn.ReLU6(), nn.Hardtanh(), Clamp(-0.5, 2.0),
            Clamp(None, 0.7), Clamp(0.1, None), nn.Tanh(), nn.Sigmoid(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(),
            nn.Softplus(), nn.ELU(),
        ]
    )  # fmt: skip
