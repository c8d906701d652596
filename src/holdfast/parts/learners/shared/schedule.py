"""How temperatures and the learning rate change while a mixture is learned."""

import math

from holdfast.parts.threats.shared.generator import Heat


def between(first: float, last: float, progress: float) -> float:
    """Return first · (last / first)^progress: `first` at 0, `last` at 1, by equal factors in equal times."""
    return first * (last / first) ** progress


def heat(progress: float) -> Heat:
    """Return the temperatures after this share of the training: 3 → 1 for π and μ, 1.5 → 1 for the roots.

    The paper gives both ends alone. We divide the networks' raw outputs by them, and move by equal factors; for what
    its authors do see `authors_heat`.
    """
    return Heat(between(3, 1, progress), between(3, 1, progress), between(1.5, 1, progress))


def authors_heat(epoch: int, epochs: int) -> Heat:
    """Return the authors' temperatures in an epoch, counted from 1: T_e = T_1 + e/E (T_2 - T_1), from epoch E on T_2.

    They multiply: the logits of π and μ by 3 → 1, the hidden layer by 1.5 → 1, and the roots by the square root of
    1.5 → 1. So a mixture begins wide and with sharp weights, where ours begins narrow and with even ones.

    Args:
        epoch: 1 for the first one.
        epochs: E, over which temperatures fall; 50, or 10 for some networks, in the authors' code.

    Example:
        >>> [round(1 / authors_heat(epoch, 10).means, 2) for epoch in (1, 5, 10, 50)]
        [2.8, 2.0, 1.0, 1.0]
    """
    passed = min(1.0, epoch / epochs)
    high, low = 3 - 2 * passed, 1.5 - 0.5 * passed
    return Heat(weights=1 / high, means=1 / high, trunk=1 / low, spread=math.sqrt(low))


def authors_relaxation(epoch: int, epochs: int) -> float:
    """Return the authors' temperature of the Gumbel-softmax in an epoch, counted from 1: evenly from 1 to 0.1.

    Example:
        >>> [round(authors_relaxation(epoch, 10), 2) for epoch in (1, 4, 10)]
        [1.0, 0.7, 0.1]
    """
    return 1 - 0.9 * (epoch - 1) / max(1, epochs - 1)


def relaxation(progress: float) -> float:
    """Return the temperature of the Gumbel-softmax after this share of the training: 1 → 0.1."""
    return between(1.0, 0.1, progress)


def rate_factor(epoch: float, epochs: int, warmup: int, cosine: bool) -> float:
    """Return the learning rate's factor: a straight rise over `warmup` epochs, then constant, or half a cosine to 0."""
    if epoch < warmup:
        return epoch / warmup
    # 1e-9: warmup = epochs leaves no time for the cosine
    return (1 + math.cos(math.pi * (epoch - warmup) / max(epochs - warmup, 1e-9))) / 2 if cosine else 1.0
