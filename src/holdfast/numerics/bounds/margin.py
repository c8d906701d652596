"""Linear functions of the representation, which bounds are asked for."""

from collections.abc import Callable
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

    def row(self, number: int) -> Callable[[Float[Tensor, "batch dim"]], Float[Tensor, "batch"]]:
        """Return the margins of one row as distances between representations, m / ||weights||, in their precision."""
        # A row that is far away does not weigh more than a near one
        length = self.weights[:, number].norm(dim=1)[:, None]
        scale = 1 / torch.where(length > 0, length, 1.0)
        margin = Margin(self.weights[:, [number]] * scale[..., None], self.bias[:, [number]] * scale)
        return lambda reps: margin.to(reps)(reps).squeeze(1)

    def part(self, images: slice) -> "Margin":
        """Return the margins of some images."""
        return Margin(self.weights[images], self.bias[images])
