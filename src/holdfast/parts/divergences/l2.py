"""Euclidean distance."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Margin
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.blocks import Side, square_distances
from holdfast.numerics.geometry.divergence import (
    TIE,
    All,
    Bank,
    Divergence,
    EuclideanDivergence,
    PerPair,
    Rivals,
    Scores,
    Vectors,
)
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.divergences.squared_l2 import SquaredL2


@dataclass(frozen=True)
class L2(EuclideanDivergence):
    """||a - b||_2, with gradient zero, not NaN, at a = b.

    Example:
        >>> L2()(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])).item()
        5.0
    """

    title = "ℓ2 distance"
    invariant = EVERY

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the distance of each pair."""
        return torch.linalg.vector_norm(a - b, dim=-1)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return those of all pairs."""
        return square_distances(rows, columns).sqrt_()

    @property
    @override
    def kernel(self) -> Divergence:
        return SquaredL2()

    def to_kernel(self, distances: Tensor) -> Tensor:
        """Return squares that keep the sign: a limit below 0 stays below all distances."""
        return distances * distances.abs()

    def from_kernel(self, distances: Tensor) -> Tensor:
        """Return the roots of squares."""
        return distances.sqrt()

    def between(self, positive: Float[Tensor, "batch dim"], negatives: Rivals) -> Margin:
        """Return 2 (f⁺ - f⁻) · f(x') + ||f⁻||² - ||f⁺||², which is ||f(x') - f⁻||² - ||f(x') - f⁺||².

        Example:
            >>> margin = L2().between(torch.eye(2)[:1].double(), torch.eye(2)[None, 1:].double())
            >>> margin(torch.tensor([[0.75, 0.25]]).double()).tolist()
            [[1.0]]
        """
        own, rivals = positive.double()[:, None], negatives.double()
        # ||f⁻||² - ||f⁺||², without the digits that a large mean takes from two squares
        return Margin(2 * (own - rivals), ((rivals - own) * (rivals + own)).sum(-1))

    def scores(self, bank: Bank) -> Scores:
        """Return -||f' - f_j||² without ||f'||², around the middle of the population: less cancels."""
        middle = bank.mean(0)
        return Scores(2 * (bank - middle), -(bank - middle).square().sum(1), middle)

    def against(self, reps: Float[Tensor, "queries dim"], bank: Bank, own: Int[Tensor, "queries"]) -> tuple[All, All]:
        """Return differences of squared distances; ties are relative to the two."""
        others = pairwise.pairwise(reps, bank, SquaredL2())
        before = (reps - bank[own]).square().sum(1, keepdim=True)
        return others - before, TIE * (others + before)

    def lead(self, reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch"]:
        """Return 1: ||f_i - f_j||² itself."""
        return torch.ones_like(reps[:, 0])
