"""How temperatures and the learning rate change while a mixture is learned."""

import math

from holdfast.parts.threats.shared.generator import Heat


def between(first: float, last: float, progress: float) -> float:
    """Return first · (last / first)^progress: `first` at 0, `last` at 1, by equal factors in equal times."""
    return first * (last / first) ** progress


def heat(progress: float) -> Heat:
    """Return the temperatures after this share of the training: 3 → 1 for π and μ, 1.5 → 1 for the roots.

    The paper gives both ends alone. We divide the networks' raw outputs by them, and move by equal factors.
    """
    return Heat(between(3, 1, progress), between(3, 1, progress), between(1.5, 1, progress))


def relaxation(progress: float) -> float:
    """Return the temperature of the Gumbel-softmax after this share of the training: 1 → 0.1."""
    return between(1.0, 0.1, progress)


def rate_factor(epoch: float, epochs: int, warmup: int, cosine: bool) -> float:
    """Return the learning rate's factor: a straight rise over `warmup` epochs, then constant, or half a cosine to 0."""
    if epoch < warmup:
        return epoch / warmup
    return (1 + math.cos(math.pi * (epoch - warmup) / max(epochs - warmup, 1e-9))) / 2 if cosine else 1.0
