"""All pairs of some images, each once: their distances, and what each image contributes to a mean over them."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.pairwise import pairwise

ROWS = 256
"""Images whose distances from all others are looked at together."""


@dataclass(frozen=True)
class ImagePairs:
    """The pairs (i, j), i < j, of N images, but for those that are left out.

    Attributes:
        images: N.
        left_out: pairs that do not count, in any order, [L, 2].
    """

    images: int
    left_out: Int[Tensor, "left 2"]

    @cached_property
    def both(self) -> Int[Tensor, "2 pairs"]:
        """The two images of each pair, the lower one first."""
        first, second = torch.triu_indices(self.images, self.images, 1)
        low, high = self.left_out.sort(1).values.unbind(1)
        counted = torch.ones(len(first), dtype=torch.bool)
        # An image left out with itself is no pair. Before row `low` lie low (2N - low - 1) / 2
        # pairs of the upper triangle.
        different = low < high
        counted[(low * (2 * self.images - low - 1) // 2 + high - low - 1)[different]] = False
        return torch.stack([first[counted], second[counted]])

    @property
    def count(self) -> int:
        """How many pairs count."""
        return self.both.shape[1]

    def distances(self, reps: Float[Tensor, "images dim"], divergence: Divergence) -> Float[Tensor, "pairs"]:
        """Return the distance of each pair in float64.

        Args:
            reps: representations, [N, D].
            divergence: a symmetric one.

        Example:
            >>> from holdfast.parts.divergences.l2 import L2
            >>> pairs = ImagePairs(3, torch.tensor([[2, 0]]))
            >>> pairs.distances(torch.tensor([[0.0], [1.0], [3.0]]), L2()).tolist()
            [1.0, 2.0]
        """
        # Of all ordered pairs; those that count are taken from there
        apart = torch.cat([pairwise(reps[rows], reps, divergence) for rows in torch.arange(self.images).split(ROWS)])
        return apart[self.both[0], self.both[1]]

    def shares(self, values: Float[Tensor, "pairs"]) -> Float[Tensor, "images"]:
        """Return what each image contributes to the mean over pairs, up to its two roles: u_i, whose mean it is.

        u_i = θ + N / 2P Σ_j (v_ij - θ), with θ the mean over the P pairs. Where no pair is left out that is the mean
        over the image's own pairs. Twice (u_i - θ) / N is the image's influence on θ (Hájek).

        Args:
            values: v of each pair.

        Example:
            >>> ImagePairs(3, torch.empty(0, 2, dtype=torch.long)).shares(torch.tensor([1.0, 0.0, 0.0])).tolist()
            [0.5, 0.5, 0.0]
        """
        values = values.double()
        excess = values - values.mean()
        moves = torch.zeros(self.images, dtype=torch.float64)
        # A pair moves both of its images
        for side in self.both:
            moves.index_add_(0, side, excess)
        return values.mean() + self.images / (2 * max(self.count, 1)) * moves
