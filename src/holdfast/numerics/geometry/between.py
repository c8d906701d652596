"""Between which of some values very many distances lie: by a table of narrow cells, and a search only near a value."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_FEWEST, _OF_EACH, _MOST = 2**13, 64, 2**20
"""Cells: at least, for each value, and at most. Few distances then lie in the cell of a value."""


class Between:
    """How many of some values lie below a distance, for blocks of distances at a time.

    A cell without a value has one answer for all distances in it. The others, and what rounding could take into such a
    cell, are searched one by one.

    Args:
        values: different and in rising order, [V].
        slack: relative error of a distance.
        floor: its absolute error.

    Example:
        >>> Between(torch.tensor([1.0, 2.0]).double())(torch.tensor([[0.5, 1.0, 1.5, 9.0]]).double())[0].tolist()
        [[0, 0, 1, 2]]
    """

    def __init__(self, values: Float[Tensor, "values"], slack: float = 0.0, floor: float = 0.0):
        self._values, self._slack, self._floor = values, slack, floor
        cells = min(max(_FEWEST, _OF_EACH * len(values)), _MOST)
        finite = values[values.isfinite() & (values > 0)]
        largest = float(finite[-1]) if len(finite) else 1.0
        self._scale = cells / largest
        edges = torch.arange(cells + 3, dtype=torch.float64) / self._scale
        edges[-1] = torch.inf  # the last cell has no end
        room = max(4 * slack, 1e-12)  # for both errors, and the rounding of a cell's edges
        below = torch.searchsorted(values, edges[:-1] * (1 - room) - 2 * floor)
        upto = torch.searchsorted(values, edges[1:] * (1 + room) + 2 * floor, right=True)
        self._table = torch.where(below == upto, below, -1)
        ends = values.new_tensor([torch.inf])
        self._edges = torch.cat([-ends, values, ends])

    def __call__(self, block: Float[Tensor, "rows columns"]) -> tuple[Int[Tensor, "rows columns"], Int[Tensor, "_ 2"]]:
        """Return how many values lie below each distance, and places where its error could change that."""
        cell = (block * self._scale).clamp_max_(len(self._table) - 1).int()
        index = self._table.index_select(0, cell.view(-1)).view_as(block)
        places = (index < 0).nonzero()
        rows, columns = places.unbind(1)
        distances = block[rows, columns]
        below = torch.searchsorted(self._values, distances)
        index[rows, columns] = below
        gap = torch.minimum(distances - self._edges[below], self._edges[below + 1] - distances)
        return index, places[gap <= 2 * self._slack * distances + self._floor]
