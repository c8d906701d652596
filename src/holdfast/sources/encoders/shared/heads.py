"""Heads of a checkpoint, built from the names and shapes of their tensors."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal

from torch import Tensor, nn

from holdfast.runtime.errors import Unsupported

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


def head(tensors: Mapping[str, Tensor], activation: Literal["relu", "gelu"], name: str) -> nn.Module:
    """Return the head whose state dict this is, filled.

    A matrix is a linear layer, running means are a BatchNorm. In a sequence, a number without tensors is an activation:
    "0.weight", "2.weight" are two linear layers with one between them.

    Args:
        tensors: name within the head -> tensor.
        activation: between its layers.
        name: of the head, for errors.

    Raises:
        HoldfastError: tensors that are neither.
    """
    module = _module(tensors, activation, name)
    module.load_state_dict(dict(tensors))
    return module


def last_linear(module: nn.Module, name: str) -> nn.Module:
    """Return the last linear layer of a head.

    Raises:
        HoldfastError: a head without one.
    """
    # In the order of the modules, which is that of a sequence
    linear = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not linear:
        raise Unsupported(f"{name} has no linear layer")
    return linear[-1]


def sequence(heads: Mapping[str, nn.Module]) -> nn.Module:
    """Return heads behind one another, each by its name."""
    return nn.Sequential(OrderedDict(heads))


def within(state: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `start`, named by what follows."""
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}


def _module(tensors: Mapping[str, Tensor], activation: Literal["relu", "gelu"], name: str) -> nn.Module:
    # By the tensors that a layer has, innermost first
    if "running_mean" in tensors:
        return nn.BatchNorm1d(len(tensors["running_mean"]), affine="weight" in tensors)
    if "weight" in tensors and tensors["weight"].ndim == 2:
        wide, deep = tensors["weight"].shape
        return nn.Linear(deep, wide, bias="bias" in tensors)
    parts = list(dict.fromkeys(key.partition(".")[0] for key in tensors if "." in key))
    if not parts or any("." not in key for key in tensors):
        shapes = ", ".join(f"{key} {list(value.shape)}" for key, value in tensors.items())
        raise Unsupported(f"{name}: expected linear layers and BatchNorms, got {shapes}; choose another layer")
    # Parts with names of their own keep these
    if not all(part.isdigit() for part in parts):
        return nn.Sequential(OrderedDict((p, _module(within(tensors, f"{p}."), activation, name)) for p in parts))
    layers: list[nn.Module] = []
    for place in range(max(map(int, parts)) + 1):
        inside = within(tensors, f"{place}.")
        layers.append(_module(inside, activation, name) if inside else _ACTIVATIONS[activation]())
    return nn.Sequential(*layers)
