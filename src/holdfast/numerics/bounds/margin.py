"""Linear functions of the representation, which bounds are asked for."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "batch rows"]


@dataclass(frozen=True)
class Margin:
    """Linear functions of the representation, several rows for every image: m(x') = weights · f(x') + bias.

    Attributes:
        weights: [B, R, D].
        bias: [B, R].
    """

    weights: Float[Tensor, "batch rows dim"]
    bias: Rows

    def __call__(self, reps: Float[Tensor, "batch dim"]) -> Rows:
        """Return the margins of some representations."""
        return (self.weights @ reps[..., None]).squeeze(-1) + self.bias  # [B, R, D] @ [B, D, 1]

    def to(self, kind: torch.dtype | torch.device | Tensor) -> "Margin":
        """Return the margin in another precision, on another device, or in those of a tensor."""
        return Margin(self.weights.to(kind), self.bias.to(kind))

    def part(self, images: slice) -> "Margin":
        """Return the margins of some images."""
        return Margin(self.weights[images], self.bias[images])
