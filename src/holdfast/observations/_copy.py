"""Copies of an encoder that are trained, stored as tensors and filled again; the encoder itself is never touched."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from holdfast.core import Encoder, HoldfastError
from holdfast.encoders._weights import fill

PREFIX = "network."


def trainable(encoder: Encoder) -> Encoder:
    """Return a copy in training mode, all of whose weights have a gradient.

    Raises:
        HoldfastError: a network that was converted or traced, or whose weights are no parameters.
    """
    if any(isinstance(module, (torch.fx.GraphModule, torch.jit.ScriptModule)) for module in encoder.modules()):
        raise HoldfastError(
            f"encoder {encoder.name!r}: expected a torch module to fine-tune, got one converted from ONNX or traced, "
            "which keeps weights as constants and knows no training mode; open the original network, or use a probe"
        )
    made = _copied(encoder)
    floats = [value for value in made.module.parameters() if value.is_floating_point()]
    if not floats and any(value.is_floating_point() for value in made.module.buffers()):
        raise HoldfastError(
            f"encoder {encoder.name!r}: expected weights that are parameters to fine-tune them, got buffers only; "
            "open the original network, or use a probe"
        )
    for value in floats:
        value.requires_grad_(True)
    made.module.train()  # the encoder around it stays in eval mode, its network does not
    return made


def state_of(encoder: Encoder) -> dict[str, Tensor]:
    """Return the weights and buffers of an encoder's network, each with memory of its own, as `network.NAME`."""
    state = encoder.module.state_dict().items()
    return {f"{PREFIX}{name}": value.detach().clone() for name, value in state if isinstance(value, Tensor)}


def filled(encoder: Encoder, state: Mapping[str, Tensor]) -> Encoder:
    """Return a copy of an encoder, frozen, with the weights and buffers that `state_of` gave."""
    made = _copied(encoder)
    mine = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
    fill(made.module, mine, f"what was fine-tuned of {encoder.name!r}")
    return made


def _copied(encoder: Encoder) -> Encoder:
    """Return the same encoder with a network of its own, on the same device."""
    module: nn.Module = copy.deepcopy(encoder.module)
    made = Encoder(module, mean=encoder.mean, std=encoder.std, geometry=encoder.geometry, name=encoder.name)
    return made.to(encoder.get_buffer("_mean").device)
