"""Activations and max pooling: the range of each, and its linear relaxation once its input is bounded."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Box = tuple[Tensor, Tensor]
"""Lowest and highest values, [B, *shape] each."""


@dataclass(frozen=True, eq=False)
class LinearRelaxation:
    """The two lines of an activation: below_slope · z + below <= σ(z) <= above_slope · z + above; [B, *shape] each.

    Attributes:
        below_slope: as above.
        below: None where it is zero.
        above_slope: as above.
        above: as above.
        free: where any slope in [0, 1] would do below (the values of a ReLU whose sign is open); None for nowhere.
    """

    below_slope: Tensor
    below: Tensor | None
    above_slope: Tensor
    above: Tensor
    free: Tensor | None = None

    def part(self, images: slice) -> "LinearRelaxation":
        """Return the relaxation of some images."""
        parts = (self.below_slope, self.below, self.above_slope, self.above, self.free)
        return LinearRelaxation(*(None if t is None else t[images] for t in parts))  # pyright: ignore[reportArgumentType]

    def to(self, dtype: torch.dtype) -> "LinearRelaxation":
        """Return the relaxation in another precision."""
        below = None if self.below is None else self.below.to(dtype)
        return LinearRelaxation(
            self.below_slope.to(dtype), below, self.above_slope.to(dtype), self.above.to(dtype), self.free
        )


class Curved(ABC):
    """An activation: a nonlinear function of each value on its own; a frozen dataclass."""

    @abstractmethod
    def __call__(self, z: Tensor) -> Tensor:
        """Return σ(z)."""

    @abstractmethod
    def box(self, box: Box) -> Box:
        """Return the range of σ on a box."""

    @abstractmethod
    def relax(self, box: Box) -> LinearRelaxation:
        """Return two lines that hold σ between them on a box."""


@dataclass(frozen=True)
class Relu(Curved):
    """max(z, 0): the chord above; below, z or 0, whichever leaves less area between (an argument of α-CROWN).

    Source: Zhang et al. (2018), "Efficient neural network robustness certification" (CROWN, adaptive slope).
    """

    def __call__(self, z: Tensor) -> Tensor:
        """Return max(z, 0)."""
        return z.clamp_min(0)

    def box(self, box: Box) -> Box:
        """Return the range: max(., 0) rises."""
        return box[0].clamp_min(0), box[1].clamp_min(0)

    def relax(self, box: Box) -> LinearRelaxation:
        """Return the chord, and below z or 0 where the sign of z is open, by the side that is longer."""
        low, high = box
        below, above = low.clamp_max(0), high.clamp_min(0)
        chord = above / (above - below).clamp_min(1e-30)
        free = (low < 0) & (high > 0)
        return LinearRelaxation(torch.where(free, (high > -low).to(low), chord), None, chord, -chord * below, free)


@dataclass(frozen=True)
class Smooth(Curved):
    """A smooth function between two parallel lines with the slope of its chord.

    The gap σ(z) - slope · z is enclosed on a grid of cells of width h: between its values at the ends of a cell it
    departs from their chord by at most curvature · h²/8. Beyond ±`reach` the function is within `tail` of the line
    from its value there to its value at the end of the box, and is enclosed by that.

    Attributes:
        function: σ.
        curvature: the largest |σ''|.
        reach: where the tails begin.
        tail: how far σ is from a straight line in each tail, at most.
        valley: where σ is lowest; None for functions that rise everywhere.
    """

    function: Callable[[Tensor], Tensor]
    curvature: float
    reach: float = 12.0
    tail: float = 2e-4
    valley: float | None = None

    def __call__(self, z: Tensor) -> Tensor:
        """Return σ(z)."""
        return self.function(z)

    def box(self, box: Box) -> Box:
        """Return the range: the ends of the box, and the valley where it lies inside."""
        low, high = self(box[0]), self(box[1])
        if self.valley is None:
            return low, high
        lowest = self(torch.full_like(low, self.valley)) - 1e-6  # the valley is known to six digits
        inside = (box[0] < self.valley + 1e-6) & (box[1] > self.valley - 1e-6)
        return torch.where(inside, lowest, torch.minimum(low, high)), torch.maximum(low, high)

    def relax(self, box: Box) -> LinearRelaxation:
        """Return two parallel lines."""
        # the slope of the chord, and a grid between the tails
        low, high = box
        width = high - low
        slope = torch.where(width > 1e-6, (self(high) - self(low)) / width.clamp_min(1e-6), 0.0)
        start, stop = low.clamp(-self.reach, self.reach), high.clamp(-self.reach, self.reach)
        cell = (stop - start) / CELLS
        within = self.curvature * cell.square() / 8
        outside = torch.where((low < start) | (high > stop), self.tail, 0.0)
        # the gap σ(z) - slope · z at the ends of the box and of every cell
        lowest = torch.minimum(self(low) - slope * low, self(high) - slope * high)
        highest = torch.maximum(self(low) - slope * low, self(high) - slope * high)
        for i in range(CELLS + 1):
            z = torch.minimum(start + i * cell, stop)
            gap = self(z) - slope * z
            lowest, highest = torch.minimum(lowest, gap), torch.maximum(highest, gap)
        # what σ may do between the points that were looked at, and rounding
        rounding = 1e-6 if low.dtype == torch.float32 else 1e-12
        margin = within + outside + rounding * (1 + lowest.abs() + highest.abs())
        return LinearRelaxation(slope, lowest - margin, slope, highest + margin)


CELLS = 64
"""Cells of the grid on which `Smooth` encloses a function."""

TANH = Smooth(torch.tanh, 0.77)
SIGMOID = Smooth(torch.sigmoid, 0.0963)
GELU = Smooth(F.gelu, 0.798, valley=-0.7517916)
GELU_TANH = Smooth(lambda z: F.gelu(z, approximate="tanh"), 0.81, valley=-0.7524614)
SILU = Smooth(F.silu, 0.5, valley=-1.2784645)
SOFTPLUS = Smooth(F.softplus, 0.25)
ELU = Smooth(F.elu, 1.0)


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

    def choose(self, box: Box) -> tuple[Tensor, Tensor, Tensor]:
        """Return the chosen input of each window (a flat index), whether it rules, and the largest upper bound."""
        low, high = box
        largest, chosen = F.max_pool2d(
            low, self.kernel, self.stride, self.padding, self.dilation, self.ceil, return_indices=True
        )
        ruled = torch.stack([self._others(high, chosen, k) for k in range(math.prod(self.kernel))]).amax(0)
        return chosen, largest >= ruled, self(high)

    def _others(self, high: Tensor, chosen: Tensor, k: int) -> Tensor:
        """Return the upper bound of the window's k-th input, -inf where it is the chosen one or padding."""
        row, column = divmod(k, self.kernel[1])
        height, width = high.shape[-2:]
        (dy, dx), (sy, sx), (py, px) = self.dilation, self.stride, self.padding
        rows = torch.arange(chosen.shape[-2], device=high.device) * sy - py + row * dy
        columns = torch.arange(chosen.shape[-1], device=high.device) * sx - px + column * dx
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
        rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
        value = high[..., rows[:, None], columns]
        flat = rows[:, None] * width + columns
        return torch.where(inside & (chosen != flat), value, -torch.inf)
