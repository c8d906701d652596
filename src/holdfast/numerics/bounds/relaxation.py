"""What an activation is to bound propagation: its range, and lines that hold it between them on an interval."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.bounds.box import Box

Line = tuple[Tensor, Tensor | None]
"""slope · z + offset, [B, *shape] or [B, R, *shape] each; the offset None where it is zero."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The lines of one side of an activation, any of which is valid: line(first + α · (last - first)), α in [0, 1].

    Attributes:
        line: from a place and `size` to the line there: a tangent, say.
        free: where there is a choice; elsewhere the usual line stays.
        usual: the α of the usual line.
        first: the place of α = 0; None: 0.
        last: that of α = 1; None: 1.
        size: how large z may be, for rounding; None where the lines are exact.
    """

    line: Callable[[Tensor, Tensor | None], Line]
    free: Tensor
    usual: Tensor
    first: Tensor | None = None
    last: Tensor | None = None
    size: Tensor | None = None

    def at(self, alphas: Tensor, usual: Line, spread: Callable[[Tensor], Tensor]) -> Line:
        """Return the lines at α of each row where there is a choice, the usual ones elsewhere, see `over`."""
        # Without ends α itself says where: it is the slope of a line through zero
        place = alphas
        if self.first is not None and self.last is not None:
            place = torch.lerp(spread(self.first), spread(self.last), alphas)
        # The line of each row there; where there is nothing to choose, it may be anything
        slope, offset = self.line(place, None if self.size is None else spread(self.size))
        free = spread(self.free)
        slope = torch.where(free, slope, usual[0])
        return slope, usual[1] if offset is None or usual[1] is None else torch.where(free, offset, usual[1])


@dataclass(frozen=True, eq=False)
class LinearRelaxation:
    """The two lines of an activation: below_slope · z + below <= σ(z) <= above_slope · z + above; [B, *shape] each.

    Attributes:
        below_slope: as above.
        below: None where it is zero.
        above_slope: as above.
        above: as above.
        lower: other lines below, from which α chooses; None for none.
        upper: other lines above.
    """

    below_slope: Tensor
    below: Tensor | None
    above_slope: Tensor
    above: Tensor
    lower: Choice | None = None
    upper: Choice | None = None

    def part(self, images: slice) -> "LinearRelaxation":
        """Return the relaxation of some images."""
        return _map_tensors(self, lambda t: t[images])

    def spread(self, many: int) -> "LinearRelaxation":
        """Return the relaxation of one image as that of many."""
        return _map_tensors(self, lambda t: t.expand(many, *t.shape[1:]))

    def to(self, dtype: torch.dtype) -> "LinearRelaxation":
        """Return the relaxation in another precision."""
        return _map_tensors(self, lambda t: t if t.dtype == torch.bool else t.to(dtype))

    def over(
        self, spread: Callable[[Tensor], Tensor], lower: Tensor | None = None, upper: Tensor | None = None
    ) -> "LinearRelaxation":
        """Return its two lines for every row of some forms.

        Args:
            spread: broadcasts [B, *shape] over rows.
            lower: α of the lines below, for each row; None: the usual lines.
            upper: that of the lines above.
        """
        # (slope, offset) of both sides; a missing offset is zero
        below = spread(self.below_slope), None if self.below is None else spread(self.below)
        above = spread(self.above_slope), spread(self.above)
        if lower is not None and self.lower is not None:
            below = self.lower.at(lower, below, spread)
        if upper is not None and self.upper is not None:
            above = self.upper.at(upper, above, spread)
        return LinearRelaxation(*below, *above)  # pyright: ignore[reportArgumentType]


def _map_tensors(held: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return a relaxation, or a choice, with every tensor changed."""
    values = {f.name: getattr(held, f.name) for f in fields(held)}
    # A choice holds tensors too
    values = {k: _map_tensors(v, change) if isinstance(v, Choice) else v for k, v in values.items()}
    return replace(held, **{k: change(v) if isinstance(v, Tensor) else v for k, v in values.items()})


class Curved(ABC):
    """An activation: a nonlinear function of each value on its own; a frozen dataclass."""

    @abstractmethod
    def __call__(self, z: Tensor) -> Tensor:
        """Return σ(z)."""

    @abstractmethod
    def box(self, box: Box) -> Box:
        """Return the range of σ on a box; NaN where σ is not defined on all of it."""

    @abstractmethod
    def relax(self, box: Box) -> LinearRelaxation:
        """Return two lines that hold σ between them on a box; NaN where σ is not defined on all of it."""

    @abstractmethod
    def slopes(self, box: Box) -> Box:
        """Return the least and the greatest slope between values of a box; NaN where σ is not defined on all of it."""
