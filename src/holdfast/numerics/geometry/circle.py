"""Images in a circle, each of which is compared with those next to it: some of all pairs, all images alike."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Places = slice | Int[Tensor, "some"]
Block = tuple[Int[Tensor, "rows"], Int[Tensor, "columns"], Bool[Tensor, "rows columns"] | None]


SIDE = 256
"""Images on each side of a block that serve well: smaller ones take longer a pair, larger ones hold more in vain."""


@dataclass(frozen=True)
class Circle:
    """Which pairs are compared: each image is, with so many next ones, and so with as many before it.

    Attributes:
        order: which image stands at each place, [N].
        reach: m, how many next ones; 2m < N, so that no pair is met twice.
    """

    order: Int[Tensor, "images"]
    reach: int

    def blocks(self, side: int) -> Iterator[Block]:
        """Yield (images, others, which of their pairs are compared or None for all), every pair in one block.

        Args:
            side: images on each side of a block, at most.

        Example:
            >>> blocks = Circle(torch.arange(3), reach=1).blocks(1)
            >>> [(rows.tolist(), columns.tolist(), pairs) for rows, columns, pairs in blocks]
            [([0], [1], None), ([1], [2], None), ([2], [0], None)]
        """
        count = len(self.order)
        side = min(side, count)  # or an image could be met twice in a block
        for first in range(0, count, side):
            rows = torch.arange(first, min(first + side, count))
            end = int(rows[-1]) + self.reach + 1
            for start in range(first + 1, end, side):
                columns = torch.arange(start, min(start + side, end))
                # Places beyond the end of the circle are those at its beginning, so numbers
                # go on and are wrapped last
                ahead = columns - rows[:, None]
                pairs = (ahead > 0) & (ahead <= self.reach)
                yield self.order[rows], self.order[columns % count], None if bool(pairs.all()) else pairs
