"""Max pooling: its range, and which input, or which ceiling, stands for each maximum."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.box import Box


@dataclass(frozen=True, eq=False)
class Chosen:
    """What stands for the maxima of windows, [B, C, H', W'] each.

    Attributes:
        place: the input that does, a flat index over H · W.
        rules: whether it is the maximum in any case.
        ceiling: what the maximum is at most.
        floor: what stands below it; None: the chosen input does, ruling or not.
    """

    place: Tensor
    rules: Tensor
    ceiling: Tensor
    floor: Tensor | None = None


@dataclass(frozen=True)
class MaxPool:
    """The largest value of each window, overlapping or not.

    Below: the input of the window with the largest lower bound. Above: that input too, where no other can exceed it;
    else the largest upper bound, a constant.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil: bool
    inner: tuple[int, int, int]

    def __call__(self, z: Tensor) -> Tensor:
        """Pool."""
        return F.max_pool2d(z, self.kernel, self.stride, self.padding, self.dilation, self.ceil)

    def box(self, box: Box) -> Box:
        """Return the range: the maximum rises with every input."""
        return self(box[0]), self(box[1])

    def choose(self, box: Box) -> Chosen:
        """Return the input of each window whose lowest value is largest, and the largest upper bound."""
        low, high = box
        largest, chosen = F.max_pool2d(
            low, self.kernel, self.stride, self.padding, self.dilation, self.ceil, return_indices=True
        )
        # It rules where no other of its window can be higher. One place of the window at a time
        # needs no copy of windows
        ruled = torch.stack([self._others(high, chosen, k) for k in range(math.prod(self.kernel))]).amax(0)
        return Chosen(chosen, largest >= ruled, self(high))

    def _others(self, high: Tensor, chosen: Tensor, k: int) -> Tensor:
        """Return the upper bound of the window's k-th input, -inf where it is the chosen one or padding."""
        row, column = divmod(k, self.kernel[1])
        height, width = high.shape[-2:]
        (dy, dx), (sy, sx), (py, px) = self.dilation, self.stride, self.padding
        # Where the k-th input of each window lies; on the padding there is none
        rows = torch.arange(chosen.shape[-2], device=high.device) * sy - py + row * dy
        columns = torch.arange(chosen.shape[-1], device=high.device) * sx - px + column * dx
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
        # Places on the padding must exist to be read, and are masked afterwards
        rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
        value = high[..., rows[:, None], columns]
        flat = rows[:, None] * width + columns
        return torch.where(inside & (chosen != flat), value, -torch.inf)
