"""Networks as int8 runtimes deploy them: weights and activations of few bits."""

import copy
from typing import TypeVar

import torch
from torch import Tensor, nn

from holdfast.sources.onnx.operators.quantised import round_to_levels

INT8 = 3
"""ONNX's number of the type."""

Network = TypeVar("Network", bound=nn.Module)


class Levels(nn.Module):
    """Values as integers of 8 bits hold them: QuantizeLinear, DequantizeLinear."""

    def __init__(self, scale: float, zero: int = -128):
        super().__init__()
        self.scale, self.zero = scale, zero

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.tensor(self.scale, dtype=x.dtype)
        return (round_to_levels(x, scale, self.zero, INT8) - self.zero) * scale


@torch.no_grad()
def round_weights(network: Network, bits: int = 8) -> Network:
    """Return the same with convolutions and matrices of so many bits."""
    build = copy.deepcopy(network)
    for module in build.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            step = module.weight.abs().amax() / (2 ** (bits - 1) - 1)
            module.weight.copy_((module.weight / step).round() * step)
    return build
