"""A value that is rounded and clipped: what integers make of it; ReLU and ReLU6 are cases without rounding."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.relaxation import Curved, LinearRelaxation

SLACK = 1e-3
"""Share of a step by which float32 may bring a value to the other side of where rounding jumps."""


Line = tuple[Tensor, Tensor]
"""slope · z + offset."""

WHOLE = 1e-6
"""How far a quotient may be from a whole number that it is."""


@dataclass(frozen=True)
class Clip(Curved):
    """min(max(step · round(z / step), low), high); without rounding where step is 0.

    Attributes:
        low: the least value.
        high: the greatest.
        step: from one level to the next.

    Example:
        >>> Clip(0.0, 6.0)(torch.tensor([-1.0, 2.25, 7.0])).tolist(), Clip(step=0.5)(torch.tensor([0.7])).tolist()
        ([0.0, 2.25, 6.0], [0.5])
    """

    low: float = -math.inf
    high: float = math.inf
    step: float = 0.0

    @property
    def smooth(self) -> "Clip":
        """The same without rounding."""
        return Clip(self.low, self.high)

    @override
    def __call__(self, z: Tensor) -> Tensor:
        return self._round(z).clamp(self.low, self.high)

    def _round(self, z: Tensor) -> Tensor:
        return (z / self.step).round() * self.step if self.step else z

    @override
    def box(self, box: Box) -> Box:
        reach = SLACK * self.step
        return self(box[0] - reach), self(box[1] + reach)

    @override
    def slopes(self, box: Box) -> Box:
        low, high = box
        # Those of the clipping: rounding has none
        some = (low < self.high) & (high > self.low)
        everywhere = (low >= self.low) & (high <= self.high)
        return everywhere.to(low), (some | everywhere).to(low)

    @override
    def relax(self, box: Box) -> LinearRelaxation:
        # Rounded, z is at most half a step farther up or down, and clipping rises
        room = (0.5 + SLACK) * self.step if self.step else 0.0
        (below, _), (_, above) = self._lines(box, -room), self._lines(box, room)
        if self.step:
            # Where all of the range is rounded to few levels, or is clipped, the last of them may be nearer
            middle, levels = (box[0] + box[1]) / 2, self.box(box)
            above = _where(above[0] * middle + above[1] < levels[1], above, levels[1])
            below = _where(below[0] * middle + below[1] > levels[0], below, levels[0])
        return LinearRelaxation(*below, *above)

    def _lines(self, box: Box, shift: float) -> tuple[Line, Line]:
        """Return the lines below and above the clipping of z + shift."""
        low, high = box[0] + shift, box[1] + shift
        (least, most), middle = self.smooth.box((low, high)), (low + high) / 2
        # Above: the chord to where the ceiling begins, or the ceiling; below: from the floor's end, or the floor
        above = _through(low, least, high.clamp_max(self.high))
        below = _through(high, most, low.clamp_min(self.low))
        above = _where(above[0] * middle + above[1] < most, above, most)
        below = _where(below[0] * middle + below[1] > least, below, least)
        return (below[0], below[1] + below[0] * shift), (above[0], above[1] + above[0] * shift)

    def after(self, inner: "Clip") -> "Clip | None":
        """Return what clips a value that was clipped before, as one; None where two ways of rounding meet.

        Example:
            >>> Clip(-1.0, 1.0, 0.25).after(Clip(0.0, 6.0))
            Clip(low=0.0, high=1.0, step=0.25)
        """
        if self.step and inner.step and self.step != inner.step:
            return None
        # Rounding rises, so that it may come before either clipping
        low, high = (float(self(torch.tensor(end, dtype=torch.float64))) for end in (inner.low, inner.high))
        return Clip(low, high, self.step or inner.step)

    def rescale(self, factor: float, shift: float) -> "Clip | None":
        """Return G with factor · F(z) + shift = G(factor · z + shift); None where levels would not stay multiples.

        Example:
            >>> Clip(0.0, 4.0, 1.0).rescale(0.5, -1.0)
            Clip(low=-1.0, high=1.0, step=0.5)
        """
        step = factor * self.step
        if factor <= 0 or (step and abs(shift / step - round(shift / step)) > WHOLE):
            return None
        return Clip(factor * self.low + shift, factor * self.high + shift, step)


def _through(end: Tensor, value: Tensor, corner: Tensor) -> Line:
    """Return the line through an end, with a value there, and a corner, where the clipped value is the corner's own.

    Where the corner is not beyond the end nothing rises: the line is level.
    """
    rises = corner != end
    slope = torch.where(rises, (corner - value) / torch.where(rises, corner - end, 1.0), 0.0).clamp(0, 1)
    return slope, value - slope * end


def _where(this: Tensor, line: Line, level: Tensor) -> Line:
    """Return a line where it is to be taken, else a level one."""
    return torch.where(this, line[0], 0.0), torch.where(this, line[1], level)
