"""Tiny random networks for which the exact minimum is cheap, and images on the edges of the pixel box."""

from collections.abc import Callable

import torch
from exact import Residual
from torch import Tensor, nn

from holdfast.core import Encoder

SHAPES: dict[str, tuple[int, int, int]] = {
    "dense": (1, 3, 3), "conv": (1, 4, 4), "deep_conv": (1, 4, 4), "grouped": (2, 3, 3), "dilated": (1, 4, 4),
    "residual": (1, 2, 3), "residual_conv": (1, 2, 5), "batch_norm": (1, 4, 4), "avg_pool": (1, 4, 4),
    "padded": (2, 2, 3), "max_pool": (1, 3, 4), "max_pool_apart": (1, 4, 3), "leaky_relu": (1, 3, 3),
    "relu6": (1, 3, 3), "tanh": (1, 3, 3), "sigmoid": (1, 3, 3), "gelu": (1, 3, 3), "silu": (1, 3, 3),
}  # fmt: skip
"""The shape of a network's images, by the network's name; all end in three outputs."""

RELU_NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "dense": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3)
    ),
    "conv": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 3)
    ),
    "deep_conv": lambda: nn.Sequential(
        nn.Conv2d(1, 1, 2), nn.ReLU(), nn.Conv2d(1, 1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
    ),
    "grouped": lambda: nn.Sequential(
        nn.Conv2d(2, 2, 2, groups=2, bias=False), nn.ReLU(), nn.Conv2d(2, 4, 2, groups=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(4, 3),
    ),
    "dilated": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2, dilation=2, stride=(2, 1), padding=(1, 0)), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    ),
    "residual": lambda: nn.Sequential(
        nn.Conv2d(1, 1, 3, padding=1),
        Residual(nn.Sequential(nn.ReLU(), nn.Conv2d(1, 1, 3, padding=1))),
        nn.ReLU(), nn.Flatten(), nn.Linear(6, 3),
    ),
    "residual_conv": lambda: nn.Sequential(
        nn.Conv2d(1, 1, (1, 2)),
        Residual(nn.Sequential(nn.ReLU(), nn.Conv2d(1, 1, (1, 3), padding=(0, 1))), nn.Conv2d(1, 1, 1)),
        nn.ReLU(), nn.Conv2d(1, 1, (1, 2)), nn.Flatten(), nn.Linear(6, 3),
    ),
    "batch_norm": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
        nn.Linear(8, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 3),
    ),
    "avg_pool": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AvgPool2d(2, stride=1, padding=1), nn.AdaptiveAvgPool2d((2, 1)),
        nn.Flatten(), nn.Linear(4, 3),
    ),
    "padded": lambda: nn.Sequential(
        nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(2, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
    ),
}  # fmt: skip

OTHER_PIECEWISE_LINEAR: dict[str, Callable[[], nn.Module]] = {
    "max_pool": lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(4, 3)),
    "max_pool_apart": lambda: nn.Sequential(
        nn.Conv2d(1, 1, 2), nn.ReLU(), nn.MaxPool2d(2, stride=(1, 2), padding=1, dilation=(2, 1)),
        nn.Flatten(), nn.LazyLinear(3),
    ),
    "leaky_relu": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(8, 3), nn.LeakyReLU(0.01), nn.Linear(3, 3)
    ),
    "relu6": lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2), Scale(9.0), nn.ReLU6(), nn.Flatten(), nn.Linear(8, 3), nn.ReLU6(), nn.Linear(3, 3)
    ),
}  # fmt: skip


def _smooth(activation: type[nn.Module]) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(
        nn.Conv2d(1, 2, 2), activation(), nn.Flatten(), nn.Linear(8, 4), Scale(3.0), activation(), nn.Linear(4, 3)
    )


SMOOTH: dict[str, Callable[[], nn.Module]] = {
    "tanh": _smooth(nn.Tanh), "sigmoid": _smooth(nn.Sigmoid), "gelu": _smooth(nn.GELU), "silu": _smooth(nn.SiLU)
}  # fmt: skip


class Scale(nn.Module):
    """A constant factor."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def make(name: str, build: Callable[[], nn.Module], seed: int) -> Encoder:
    """Return the network with random weights, statistics and normalisation; the seed also says how wild they are."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = build().eval()
        network(torch.zeros(1, *SHAPES[name]))  # lazy layers learn their width
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d) and isinstance(layer.running_mean, Tensor):
                for values in (layer.running_mean, layer.running_var, layer.weight, layer.bias):
                    nn.init.uniform_(values, 0.3, 1.5)  # pyright: ignore[reportArgumentType]
            elif isinstance(layer, nn.Linear | nn.Conv2d):
                layer.weight.data *= 1.5 + seed % 2
    return Encoder(network, mean=0.4, std=0.6 if seed % 3 else 0.25, name=f"{name} {seed}")


def images(count: int, shape: tuple[int, int, int], seed: int) -> Tensor:
    """Return images: inside the box, with some pixels on its edges, black, and white."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, *shape, generator=generator)
    x[1::3] = (x[1::3] * 1.6 - 0.3).clamp(0, 1)
    x[2::12], x[5::12] = 0, 1
    return x


def rows(count: int, amount: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return weights [count, amount, dim] and biases [count, amount] of random margins."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, amount, dim, generator=generator), torch.randn(count, amount, generator=generator)
