"""The smallest of very many numbers that come some at a time."""

import torch
from jaxtyping import Float
from torch import Tensor


class Least:
    """The smallest of all numbers that were added; memory for about twice as many as are kept, and one addition.

    Args:
        most: how many are kept.

    Example:
        >>> least = Least(2)
        >>> least.add(torch.tensor([3.0, 1.0]))
        >>> least.add(torch.tensor([2.0, torch.inf]))
        >>> least.values().tolist()
        [1.0, 2.0]
    """

    def __init__(self, most: int):
        self._most, self._limit = most, torch.inf
        self._parts: list[Tensor] = []

    def add(self, values: Float[Tensor, "*shape"]) -> None:
        """Take up numbers, in float64; infinite ones do not count."""
        # What is not below the largest that was kept is never among the smallest
        self._parts.append(values[values < self._limit])
        # Twice as many before they are sorted out, so that few additions sort
        if sum(map(len, self._parts)) > 2 * self._most:
            self._parts = [kept := self.values()]
            self._limit = float(kept[-1])

    def values(self) -> Float[Tensor, "kept"]:
        """Return the smallest ones in rising order, as many as are kept or fewer."""
        together = torch.cat([torch.empty(0, dtype=torch.float64), *self._parts])
        return together.topk(min(self._most, len(together)), largest=False).values
