"""What of an encoder learns: all of its weights, or all but those of some layers."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from holdfast.core import Encoder, HoldfastError
from holdfast.runtime.errors import unknown
from holdfast.sources.encoders.shared.copies import trainable


@dataclass(frozen=True)
class Learner:
    """A copy of an encoder, some or all of whose weights are trained.

    Attributes:
        encoder: the copy.
        still: layers of it that are frozen, so that their statistics must not move either.
        trained: how many weights are trained.
        weights: how many the encoder has.
    """

    encoder: Encoder
    still: frozenset[nn.Module]
    trained: int
    weights: int

    @property
    def in_words(self) -> str:
        """How many weights are trained of how many; "" where all are."""
        return "" if self.trained == self.weights else f"{self.trained:,} of {self.weights:,} weights trained"


def learner(start: Encoder, freeze: Sequence[str] = ()) -> Learner:
    """Return a copy of an encoder that can be trained, but for the weights that are to stay as they are.

    Args:
        start: the encoder.
        freeze: patterns (`layer1.*`) of names of weights and layers, as the file of its weights has them; a layer
            that one matches is frozen with all that is in it.

    Raises:
        HoldfastError: an encoder that cannot be trained; a pattern that matches nothing; patterns that leave nothing.
    """
    encoder = trainable(start)
    still = _freeze(encoder, freeze)
    sizes = [(value.numel(), value.requires_grad) for value in encoder.module.parameters()]
    return Learner(encoder, still, sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes))


def _freeze(encoder: Encoder, patterns: Sequence[str]) -> frozenset[nn.Module]:
    """Freeze what the patterns match; return the layers that learn nothing."""
    network = encoder.module.get_submodule(encoder.root)
    # By all of their names: what stands in several places is frozen where one of them matches
    layers = dict(network.named_modules(remove_duplicate=False))
    weights = dict(network.named_parameters(remove_duplicate=False))
    # Layers that hold nothing cannot be frozen
    names = [name for name, layer in layers.items() if name and layer.state_dict()] + list(weights)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise unknown("layer or weight to freeze", pattern, names)
    for name, value in weights.items():
        if _is_matched(name, patterns):
            value.requires_grad_(False)
    if patterns and not any(value.requires_grad for value in network.parameters()):
        raise HoldfastError(
            f"freeze: expected patterns that leave some weights to train, got {', '.join(patterns)}, which match all "
            f"{len(weights)}; leave one out"
        )
    return frozenset(
        layer
        for name, layer in layers.items()
        # A layer all of whose weights are named one by one is frozen, too
        if _is_matched(name, patterns) or _learns_nothing(list(layer.parameters(recurse=False)))
    )


def _learns_nothing(weights: Collection[nn.Parameter]) -> bool:
    return bool(weights) and not any(value.requires_grad for value in weights)


def _is_matched(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches a name, or that of a layer around it."""
    return any(fnmatchcase(part, pattern) for part in _with_layers_around(name) for pattern in patterns)


def _with_layers_around(name: str) -> Iterator[str]:
    """Yield a.b.c, a.b and a of a.b.c."""
    while name:
        yield name
        name = name.rpartition(".")[0]
