"""What of an encoder learns: all of its weights, all but those of some layers, or adapters beside them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import Tensor, nn

from holdfast.core import Encoder, Rng
from holdfast.runtime.errors import BadValue, unknown
from holdfast.sources.encoders.shared.copies import trainable
from holdfast.training.recipe import Recipe


@dataclass(frozen=True)
class Learner:
    """A copy of an encoder, some or all of whose weights are trained.

    Attributes:
        encoder: the copy.
        still: layers of it that are frozen, so that their statistics must not move either.
        units: of the learning rate, for weights whose size says nothing.
        in_words: how many weights are trained of how many; "" where all are.
    """

    encoder: Encoder
    still: frozenset[nn.Module]
    units: Mapping[Tensor, float]
    in_words: str


def learner(start: Encoder, recipe: Recipe) -> Learner:
    """Return a copy of an encoder that can be trained, but for the weights that are to stay as they are.

    Args:
        start: the encoder.
        recipe: says what is frozen, or where adapters are.

    Raises:
        HoldfastError: an encoder that cannot be trained; a pattern that matches nothing; patterns that leave nothing.
    """
    encoder = trainable(start)
    # Counted before adapters join them
    weights = sum(value.numel() for value in encoder.module.parameters())
    if recipe.lora is None:
        still, units, kind = _freeze(encoder, recipe.freeze), {}, "weights trained"
    else:
        # The layers as they are, before adapters are put around some
        still = frozenset(encoder.module.modules())
        recipe.lora.add_to(encoder, Rng(recipe.seed, ("training", "adapters")).generator().initial_seed())
        units, kind = recipe.lora.units(encoder), "weights, trained as adapters beside them"
    trained = sum(value.numel() for value in encoder.module.parameters() if value.requires_grad)
    return Learner(encoder, still, units, "" if trained == weights else f"{trained:,} of {weights:,} {kind}")


def _freeze(encoder: Encoder, patterns: Sequence[str]) -> frozenset[nn.Module]:
    """Freeze what patterns match; return the layers that learn nothing.

    Names are those of weights and layers as the file of the weights has them; a layer is frozen with all that is in it.
    """
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
    # Heads of a method would learn on, of an encoder that does not
    if patterns and not any(value.requires_grad for value in network.parameters()):
        raise BadValue(
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
