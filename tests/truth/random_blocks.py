"""Blocks of random networks that multiply values, normalise by statistics of the image, or take maxima and softmax."""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Function = Callable[[Tensor], Tensor]


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, name: str, function: Function):
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.name


CURVES: dict[str, Function] = {
    "celu": lambda z: F.celu(z, 0.5), "selu": F.selu, "elu of 2": lambda z: F.elu(z, 2.0), "mish": F.mish,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "softplus of 3": lambda z: F.softplus(z, 3.0),
    "softsign": F.softsign, "log sigmoid": F.logsigmoid, "tanhshrink": F.tanhshrink, "softshrink": F.softshrink,
    "erf gelu": lambda z: 0.5 * z * (1 + torch.erf(z / 2**0.5)), "abs": torch.abs, "erf": torch.erf,
    "square": lambda z: (z / 2) ** 2, "cube": lambda z: (z / 2) ** 3, "exp": lambda z: torch.exp(z.clamp(-4, 2)),
    "sqrt": lambda z: (z.abs() + 0.1).sqrt(), "rsqrt": lambda z: (z**2 + 0.5).rsqrt(),
    "log": lambda z: (F.relu(z) + 0.2).log(), "reciprocal": lambda z: 1 / (F.softplus(z) + 0.3),
    "quotient": lambda z: z / (1 + z.abs()), "to the 1.5": lambda z: (z.abs() + 0.1) ** 1.5,
    "leaky relu of 2": lambda z: F.leaky_relu(z, 2.0), "threshold": lambda z: F.threshold(z, 0.1, 0.1),
    "maximum": lambda z: torch.maximum(z, 0.3 * z.flip(1)), "swish by hand": lambda z: z * torch.sigmoid(z),
}  # fmt: skip
"""Activations beside those of `random_networks`."""

MAPS: dict[str, Function] = {
    "softmax of channels": lambda x: 3 * F.softmax(x, 1), "softmax of rows": lambda x: 3 * F.softmax(x, -1),
    "log softmax": lambda x: F.log_softmax(x, 1), "logsumexp": lambda x: torch.logsumexp(x, 1, keepdim=True),
    "maximum of channels": lambda x: torch.cat([x.amax(1, True), x.mean(1, True), x.sum(1, True) / 3], 1),
    "minimum of a row": lambda x: x - x.amin(3, keepdim=True), "centred": lambda x: x - x.mean((2, 3), keepdim=True),
    "nearest": lambda x: F.interpolate(x, (3, 3)), "bilinear": lambda x: F.interpolate(x, (4, 3), mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (3, 4), mode="bicubic"), "global": lambda x: x - F.adaptive_max_pool2d(x, 1),
    "gate of two": lambda x: torch.sigmoid(x) * torch.tanh(x.flip(3)), "slices": lambda x: x[:, :, :2, 1:] * 1.5,
    "product": lambda x: x * x.mT if x.shape[2] == x.shape[3] else x * x.flip(2),
}  # fmt: skip
"""Functions of [N, C, H, W]."""


class Attention(nn.Module):
    """The means of four quarters of the image as tokens, x + attention of x, in one or two heads."""

    def __init__(self, width: int, heads: int, masked: bool):
        super().__init__()
        self.heads, self.masked = heads, masked
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = F.adaptive_avg_pool2d(x, 2).flatten(2).mT
        shape = len(x), 4, 3, self.heads, tokens.shape[2] // self.heads
        query, key, value = self.inner(tokens).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=self.masked)
        return (tokens + self.outer(out.transpose(1, 2).flatten(2))).mT.unflatten(2, (2, 2))


class ChannelNorm(nn.Module):
    """LayerNorm or RMSNorm of the channels at every place."""

    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class Excitation(nn.Module):
    """Channels times a gate of their means."""

    def __init__(self, channels: int):
        super().__init__()
        self.gate = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.gate(x.mean((2, 3))))[:, :, None, None]


class GatedUnit(nn.Module):
    """silu(a) b of two convolutions."""

    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Conv2d(channels, 2 * channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.inner(x).chunk(2, 1)
        return F.silu(a) * b


BLOCKS = ("attention", "norm of channels", "norm of groups", "excitation", "gated unit", "map", "map", "map")


def random_block(draw: random.Random, channels: int) -> nn.Module:
    """Return a block for values [N, channels, height, width]."""
    kind = draw.choice(BLOCKS)
    if kind == "attention":
        return Attention(channels, 2 if channels % 2 == 0 else 1, draw.random() < 0.3)
    if kind == "norm of channels" and channels > 1:
        return ChannelNorm(draw.choice([nn.LayerNorm, nn.RMSNorm])(channels, eps=draw.choice([0.5, 0.1])))
    if kind == "norm of groups":
        return draw.choice([nn.GroupNorm(1, channels, eps=0.1), nn.InstanceNorm2d(channels, affine=True, eps=0.1)])
    if kind == "excitation":
        return Excitation(channels)
    if kind == "gated unit":
        return GatedUnit(channels)
    name = draw.choice(list(MAPS))
    return Of(name, MAPS[name])


def random_curve(draw: random.Random, channels: int) -> nn.Module:
    """Return an activation."""
    if draw.random() < 0.1:
        slopes = nn.PReLU(channels)
        slopes.weight.data.uniform_(-0.3, 1.5)
        return slopes
    name = draw.choice(list(CURVES))
    return Of(name, CURVES[name])
