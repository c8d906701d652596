"""Cosine distance: the angle between representations, whatever their lengths."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Margin
from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.directions import cosine, unit
from holdfast.numerics.geometry.divergence import Bank, EuclideanDivergence, PerPair, Queries, Rivals, Scores, Vectors
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.runtime.errors import Unsupported


@dataclass(frozen=True)
class Cosine(EuclideanDivergence):
    """1 - <a, b> / (||a|| ||b||), in [0, 2]; 1 where a or b is zero.

    Example:
        >>> Cosine()(torch.tensor([1.0, 0.0]), torch.tensor([[5.0, 0.0], [0.0, 1.0], [-2.0, 0.0]])).tolist()
        [0.0, 1.0, 2.0]
    """

    title = "cosine distance"
    of_directions = True
    invariant = DIRECTIONS

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the distance of each pair; exactly zero, and never below, where a = b."""
        return cosine(a, b)

    def embed(self, reps: Vectors) -> Vectors:
        """Return unit vectors."""
        return unit(reps)

    def floor(self, reps: Queries, bank: Bank) -> float:
        """Return the rounding of differences of numbers of size one."""
        return 1e-12

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return the distances of all pairs, by a matrix product."""
        return (1 - rows.reps @ columns.reps.T).clamp_min_(0)

    def between(self, positive: Float[Tensor, "batch dim"], negatives: Rivals) -> Margin:
        """Return (z⁺ - z⁻) · f(x'), z = f / ||f||_2: ||f(x')|| times the difference of similarities.

        Raises:
            HoldfastError: a representation that is zero and so has no direction.

        Source: RVCL, Eq. 11 to 13.

        Example:
            >>> margin = Cosine().between(torch.eye(2)[:1].double(), torch.eye(2)[None, 1:].double())
            >>> margin(torch.tensor([[0.75, 0.25]]).double()).tolist()
            [[0.5]]
        """
        own, rivals = positive.double()[:, None], negatives.double()
        if not (own.any(-1).all() and rivals.any(-1).all()):
            raise Unsupported(
                "a representation is zero, so it has no direction and no cosine; choose divergence = l2, or an "
                "encoder that does not map images to zero"
            )
        # (12) of RVCL: W_CL = ρ̃(f(x⁺)) - ρ̃(f(x⁻)), where ρ̃ makes unit vectors; the sign
        # does not ask for the length of f(x')
        weights = unit(own) - unit(rivals)
        return Margin(weights, torch.zeros_like(weights[..., 0]))

    def scores(self, bank: Bank) -> Scores:
        """Return cosines up to the length of f'."""
        return Scores(unit(bank), bank.new_zeros(len(bank)), torch.zeros_like(bank[0]))

    def lead(self, reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch"]:
        """Return ||f_i|| / 2: cosines are 1 - ½||z_i - z_j||²."""
        return reps.norm(dim=1) / 2
