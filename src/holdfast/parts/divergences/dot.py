"""Inner product, negated: what a vector database calls dot or inner product."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.divergence import Bank, LinearDivergence, PerPair, Queries, Rivals, Scores, Vectors
from holdfast.numerics.geometry.invariance import DIRECTIONS


@dataclass(frozen=True)
class Dot(LinearDivergence):
    """-<a, b>: the larger the inner product, the nearer.

    It is no distance: it may be below 0, and a representation need not be nearest to itself, as a longer one of about
    its direction has a larger product. An index that ranks by it does not find such an image even undisturbed, so the
    breaking radius is 0 and others are nearer without an attack: what the index does, and no fault of the measure.

    Example:
        >>> Dot()(torch.tensor([1.0, 0.0]), torch.tensor([[1.0, 0.0], [2.0, 5.0], [-1.0, 0.0]])).tolist()
        [-1.0, -2.0, 1.0]
    """

    title = "inner product"
    signed = True
    negated = True
    invariant = DIRECTIONS

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the negated product of each pair."""
        # No matrix product, whose rounding depends on the shape
        return -(a * b).sum(-1)

    def floor(self, reps: Queries, bank: Bank) -> float:
        """Return the rounding of sums of products: in units of the longest vectors."""
        return 1e-12 * float(reps.double().norm(dim=1).max() * bank.double().norm(dim=1).max())

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return those of all pairs, by a matrix product."""
        return -(rows.reps @ columns.reps.T)

    def between(self, positive: Float[Tensor, "batch dim"], negatives: Rivals) -> Margin:
        """Return (f⁺ - f⁻) · f(x').

        Example:
            >>> margin = Dot().between(torch.eye(2)[:1], 3 * torch.eye(2)[None, 1:])
            >>> margin(torch.tensor([[0.75, 0.25]]).double()).tolist()
            [[0.0]]
        """
        weights = positive.double()[:, None] - negatives.double()
        return Margin(weights, torch.zeros_like(weights[..., 0]))

    def scores(self, bank: Bank) -> Scores:
        """Return the products."""
        return Scores(bank, bank.new_zeros(len(bank)), torch.zeros_like(bank[0]))
