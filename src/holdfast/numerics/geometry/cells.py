"""A grid over sorted values: distances are counted by their cells, and only those in cells with a value searched for.

A binary search among 20,000 values takes 85 ns for a distance that lies between them, a cell a few.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

EACH, MOST = 16, 2**18
"""Cells for each value, and how many there are at most: their counts stay in a processor's cache."""


class Cells:
    """Cells of equal width from 0 to the last value.

    The number of a cell rises with the distance, so a distance in a cell without a value is above exactly the values of
    the cells before: nothing depends on how the number of a cell is rounded.

    Args:
        values: different, in rising order, [V].
        low: for each, the least computed distance whose true one may be beyond it.
        high: the largest one whose true one may be at or below it.

    Attributes:
        most: distances beyond have no cell.
        count: how many cells there are.
        searched: which of them hold a value, or a distance that may lie on either side of one, [count].
        before: how many values lie in or before each cell, [count].

    Example:
        >>> cells = Cells(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0]), torch.tensor([1.0, 4.0]))
        >>> numbers = cells.of(np.array([0.5, 1.0, 3.0]))
        >>> cells.searched[numbers].tolist(), cells.before[numbers].tolist()
        ([False, True, False], [0, 1, 1])
    """

    def __init__(self, values: Float[Tensor, "values"], low: Float[Tensor, "values"], high: Float[Tensor, "values"]):
        first, last = low.numpy().clip(min=0), high.numpy().clip(min=0)
        self.most, self.count = float(last.max(initial=0)), min(EACH * len(values), MOST) + 1
        width = self.most / (self.count - 1) if len(values) else 0.0
        each = 1 / width if 0 < width < math.inf else math.inf
        self._each = each if each < math.inf else 0.0  # then all distances are in the first cell, which is searched
        began = np.bincount(self.of(first), minlength=self.count + 1)
        ended = np.bincount(self.of(last) + 1, minlength=self.count + 1)
        self.searched = (began - ended).cumsum()[: self.count] > 0
        self.before = torch.from_numpy(np.bincount(self.of(values.numpy()), minlength=self.count).cumsum())

    def of(self, distances: np.ndarray) -> np.ndarray:
        """Return the number of the cell of each distance, from 0 to `most`."""
        if not self._each:
            return np.zeros(len(distances), dtype=np.intp)
        return np.minimum((distances * self._each).astype(np.intp), self.count - 1)
