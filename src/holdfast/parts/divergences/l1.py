"""Sum of the absolute differences of coordinates."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.divergence import Divergence, PerPair, Vectors
from holdfast.numerics.geometry.invariance import AXES


@dataclass(frozen=True)
class L1(Divergence):
    """||a - b||_1.

    Example:
        >>> L1()(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        7.0
    """

    title = "ℓ1 distance"
    invariant = AXES

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the distance of each pair."""
        return (a - b).abs().sum(-1)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return those of all pairs; sums of absolute values are no matrix product."""
        # Block by block, so that no difference of all pairs is held
        return torch.cdist(rows.reps, columns.reps, p=1.0)
