"""Encoders that hide nothing, some of them unusual."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from benchmarks.hiding.entry import HONEST, Entry
from benchmarks.hiding.family import Family
from benchmarks.hiding.masks import Mask
from benchmarks.hiding.networks import with_activations


class Applied(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.function(x)


class Halved(nn.Module):
    """A network that computes in a half precision."""

    def __init__(self, network: nn.Module, kind: torch.dtype):
        super().__init__()
        self.network, self.kind = network.to(kind), kind

    def forward(self, x: Tensor) -> Tensor:
        """Represent images."""
        return self.network(x.to(self.kind)).float()


def eight_bits(x: Tensor) -> Tensor:
    """Return x rounded to 8 bits between its extremes."""
    step = ((x.amax() - x.amin()) / 255).clamp_min(1e-12)
    return torch.round(x / step) * step


def quantised_weights(network: nn.Module) -> nn.Module:
    """Round the weights of a network to 8 bits."""
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(eight_bits(weights))
    return network


def quantised(network: nn.Module) -> nn.Module:
    """Return a network with weights and activations of 8 bits; straight through, as is usual in training.

    Activations are rounded on a grid of steps that are fixed, so that images do not depend on their batch.
    """

    def step(x: Tensor) -> Tensor:
        return torch.round(x.relu() * 64) / 64

    return with_activations(quantised_weights(network), lambda: Mask(step, functional.relu, (functional.relu,)))


def small_inputs(network: nn.Module, scale: float) -> nn.Module:
    """Return the same function with tiny inputs and large first weights."""
    first = next(part for part in network.modules() if isinstance(part, nn.Conv2d | nn.Linear))
    with torch.no_grad():
        first.weight.div_(scale)
    return nn.Sequential(network[0], Applied(lambda x: scale * x), network[1])  # pyright: ignore[reportIndexIssue]


class Patches(nn.Module):
    """A small vision transformer."""

    def __init__(self, channels: int, side: int, patch: int, width: int = 48):
        super().__init__()
        self.tokens = nn.Conv2d(channels, width, patch, patch)
        self.places = nn.Parameter(0.3 * torch.randn((side // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 3, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Represent images."""
        return self.layers(self.tokens(x).flatten(2).transpose(1, 2) + self.places).mean(1)


def convolutions(
    channels: int, side: int, act: Callable[[], nn.Module], depth: int = 2, width: int = 16, pool: bool = False
) -> nn.Module:
    """Return a convolutional network with random weights."""
    parts: list[nn.Module] = []
    before = channels
    for layer in range(depth):
        parts += [nn.Conv2d(before, width, 3, padding=1), act()]
        if layer == 0:
            parts.append(nn.MaxPool2d(2) if pool else nn.AvgPool2d(2))
        before = width
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(width * (side // 2) ** 2, 32))


NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "random, ReLU": lambda channels, side: convolutions(channels, side, nn.ReLU),
    "random, GELU": lambda channels, side: convolutions(channels, side, nn.GELU),
    "random, SiLU": lambda channels, side: convolutions(channels, side, nn.SiLU),
    "random, tanh": lambda channels, side: convolutions(channels, side, nn.Tanh),
    "random, sigmoid": lambda channels, side: convolutions(channels, side, nn.Sigmoid),
    "random, softplus": lambda channels, side: convolutions(channels, side, nn.Softplus),
    "random, max pooling": lambda channels, side: convolutions(channels, side, nn.ReLU, pool=True),
    "random, deep": lambda channels, side: convolutions(channels, side, nn.ReLU, depth=8),
    "random, wide": lambda channels, side: convolutions(channels, side, nn.ReLU, width=96),
    "random transformer": lambda channels, side: Patches(channels, side, side // 4),
}

BEFORE: dict[str, Callable[[Tensor], Tensor]] = {
    "blurred": lambda x: functional.avg_pool2d(functional.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1),
    "enlarged and reduced": lambda x: functional.interpolate(
        functional.interpolate(x, scale_factor=1.5, mode="bilinear"), x.shape[2:], mode="bilinear"
    ),
    "less contrast": lambda x: 0.25 + 0.5 * x,
    "gamma 1.5": lambda x: x.clamp_min(1e-6) ** 1.5,
    "grey": lambda x: x.mean(1, keepdim=True).expand_as(x),
}

BEHIND: dict[str, Callable[[Tensor], Tensor]] = {
    "times 1e6": lambda reps: 1e6 * reps,
    "times 1e-6": lambda reps: 1e-6 * reps,
    "times 1e-12": lambda reps: 1e-12 * reps,
    "of unit length": lambda reps: functional.normalize(reps, dim=1),
    "tanh": lambda reps: torch.tanh(reps),
}

CHANGED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "fp16": lambda network: Halved(network, torch.float16),
    "bf16": lambda network: Halved(network, torch.bfloat16),
    "8 bits": quantised,
    "weights of 8 bits": quantised_weights,
    "tiny inputs": lambda network: small_inputs(network, 1e-6),
    "GELU in the place of ReLU": lambda network: with_activations(network, nn.GELU),
    "softplus in the place of ReLU": lambda network: with_activations(network, lambda: nn.Softplus(10)),
}


def honest(family: Family) -> Iterator[Entry]:
    """Yield the honest encoders of a family."""
    made: dict[str, Callable[[Family], nn.Module]] = {"plain": Family.network}
    made |= {
        name: lambda family, spec=spec: family.network(spec) for name, spec in family.others.items()
    }  # other people's networks
    made |= {
        name: lambda family, before=before: nn.Sequential(Applied(before), family.network())
        for name, before in BEFORE.items()
    }
    made |= {
        name: lambda family, behind=behind: nn.Sequential(family.network(), Applied(behind))
        for name, behind in BEHIND.items()
    }
    made |= {name: lambda family, change=change: change(family.network()) for name, change in CHANGED.items()}
    made |= {name: lambda family, make=make: _seeded(family, make) for name, make in NETWORKS.items()}
    kept = set(made) if family.name == "digits" else {*KEPT.get(family.name, ()), *family.others}
    if family.population.shape[1] == 1:
        kept -= {"grey"}
    for name, make in made.items():
        if name in kept:
            yield Entry(HONEST, name, make)


KEPT = {
    "cifar": ("plain", "times 1e6", "times 1e-12", "fp16", "tiny inputs", "grey", "8 bits", "random transformer"),
    "mnist": ("plain",),
    "photos": ("plain", "blurred", "times 1e-12"),
}
"""Of families other than digits, beside their further networks."""


def _seeded(family: Family, make: Callable[[int, int], nn.Module]) -> nn.Module:
    _, channels, _, side = family.population.shape
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make(channels, side).eval()
