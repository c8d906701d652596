"""Squared Euclidean distance."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.blocks import Side, square_distances
from holdfast.numerics.geometry.divergence import Divergence, PerPair, Vectors
from holdfast.numerics.geometry.invariance import EVERY


@dataclass(frozen=True)
class SquaredL2(Divergence):
    """||a - b||_2².

    Example:
        >>> SquaredL2()(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        25.0
    """

    title = "squared ℓ2 distance"
    invariant = EVERY

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the squared distance of each pair."""
        return (a - b).square().sum(-1)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return those of all pairs, by a matrix product."""
        return square_distances(rows, columns)
