"""Blocks of all pairs: what is computed once for each of their sides, and how much of them is in memory."""

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK_BYTES = 4 * 2**20
"""Memory one block of distances may take; a few such blocks live at once. Larger ones leave a processor's cache."""

_NEAR = 1e-4  # below this share of |a|² + |b|², |a - b|² is taken from the difference: cancellation


class Side:
    """One side of a block, as its divergence embeds it; what Euclidean distances need of it is computed once.

    They are taken around `origin`, a bank member: cancellation in the matrix product shrinks.
    """

    def __init__(self, reps: Float[Tensor, "side dim"], origin: Float[Tensor, "1 dim"]):
        self.reps, self._origin = reps, origin

    @cached_property
    def around(self) -> Float[Tensor, "side dim"]:
        """The representations around the origin."""
        return self.reps - self._origin

    @cached_property
    def square_norms(self) -> Float[Tensor, "side"]:
        """Their squared distances from it."""
        return self.around.square().sum(-1)


def square_distances(rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
    """Return ||a_i - b_j||² of all pairs by one matrix product; those close to 0 are taken from the difference.

    Example:
        >>> origin = torch.zeros(1, 2).double()
        >>> square_distances(Side(origin, origin), Side(torch.tensor([[3.0, 4.0]]).double(), origin)).tolist()
        [[25.0]]
    """
    a, b = rows.reps, columns.reps
    lengths = rows.square_norms[:, None] + columns.square_norms
    # |a|² + |b|² - 2 a·b, in a tensor of its own, so that the sums of squares may be overwritten below
    squared = torch.addmm(lengths, rows.around, columns.around.T, alpha=-2)
    for part in find_places(squared.numpy() < lengths.mul_(_NEAR).numpy()).split(rows_in_memory(b.shape[1])):
        squared[part[:, 0], part[:, 1]] = (a[part[:, 0]] - b[part[:, 1]]).square().sum(-1)
    return squared


def rows_in_memory(columns: int) -> int:
    """Return how many rows of so many numbers a block holds.

    Example:
        >>> rows_in_memory(1024)
        512
    """
    return max(1, BLOCK_BYTES // (8 * max(1, columns)))


def find_places(chosen: np.ndarray) -> Int[Tensor, "pairs 2"]:
    """Places in a block, (row, column); several times as fast as `nonzero` where there are few.

    Example:
        >>> find_places(np.eye(2) > 0).tolist()
        [[0, 0], [1, 1]]
    """
    place = torch.from_numpy(np.flatnonzero(chosen))
    return torch.stack([place // chosen.shape[1], place % chosen.shape[1]], 1)
