"""Curved functions of one variable: the lines of least area below and above them on an interval."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import inf

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.relaxation import Choice, Curved, Line, LinearRelaxation

HALVINGS = {torch.float64: 32, torch.float32: 20}
"""Of the interval in which a point of tangency is looked for; coarser ones give looser lines, never wrong ones."""

ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-6}
"""Share of the numbers that make a line which is set aside for rounding."""


@dataclass(frozen=True)
class Smooth(Curved):
    """A function that is convex and concave in turns, between the lines that leave least area.

    The line of least area below σ on [l, u] is the one that touches its convex envelope in the middle. Where σ is
    convex on a piece and concave beside it, that is the tangent at the point t of the piece next to the middle whose
    tangent exceeds σ neither at l nor at u; where there is no such point, the chord. A tangent that is below a convex
    piece, and below σ at l and u, is below the concave pieces too: so whatever t the search ends with, its tangent,
    lowered by what it exceeds at l or u, is valid. Above, the same holds of -σ. α-CROWN moves t.

    Of functions that are concave on both sides of a convex piece, the left side must not rise, nor exceed the right.

    Attributes:
        function: σ.
        slope: σ'.
        convex: whether σ is convex on its first piece, from the left.
        bends: where one piece ends and the next begins: inflections, or kinks.
        valley: where σ is lowest; None for functions that rise or fall everywhere.
        pole: where σ is not defined; None for functions that are defined wherever they are not NaN.
        unit: values below this size are only known to its rounding.
        departs: how far the encoder's own function may be from σ.

    Source: Zhang et al. (2018), "Efficient neural network robustness certification with general activation functions",
    Table 2 (tangents and chords); Singh et al. (2019), "An abstract domain for certifying neural networks" (least
    area); Xu et al. (2020), "Automatic perturbation analysis for scalable certified robustness" (tangents as α).
    """

    function: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    convex: bool = True
    bends: tuple[float, ...] = ()
    valley: float | None = None
    pole: float | None = None
    unit: float = 1.0
    departs: float = 0.0

    @override
    def __call__(self, z: Tensor) -> Tensor:
        return self.function(z)

    def box(self, box: Box) -> Box:
        """Return the range: the ends of the box, and the valley where it lies inside."""
        ends = self._mask_pole(box)
        low, high = self(ends[0]), self(ends[1])
        lowest, highest = torch.minimum(low, high), torch.maximum(low, high)
        # Rising or falling everywhere else, so that ends and valley are all extremes
        if self.valley is not None:
            inside = (box[0] < self.valley) & (box[1] > self.valley)
            lowest = torch.where(inside, self(torch.full_like(low, self.valley)), lowest)
        return lowest - self.departs, highest + self.departs

    @override
    def slopes(self, box: Box) -> Box:
        low, high = self._mask_pole(box)
        # Slopes rise and fall between bends, so that ends and both sides of bends are all extremes
        sides = [(torch.full_like(low, end).nextafter(low.new_tensor(to))) for end in self.bends for to in (-inf, inf)]
        slopes = torch.stack([self.slope(z.clamp(low, high)) for z in (low, high, *sides)])
        room = ROUNDING[low.dtype] * (1 + slopes.abs().amax(0))
        return slopes.amin(0) - room, slopes.amax(0) + room

    def relax(self, box: Box) -> LinearRelaxation:
        """Return the lines of least area, and the tangents from which α may choose."""
        box = self._mask_pole(box)
        below, lower = self._line(box, 1)
        above, upper = self._line(box, -1)
        return LinearRelaxation(*below, *above, lower, upper)  # pyright: ignore[reportArgumentType]

    def tangent(self, side: int, t: Tensor, size: Tensor | None) -> Line:
        """Return the tangent at t, moved to the side of σ (1: below, -1: above) by the rounding of its values."""
        value, slope = self(t), self.slope(t)
        reach = t.abs() if size is None else size
        return slope, value - slope * t - side * self._room(value, slope, reach)

    def _room(self, value: Tensor, slope: Tensor, size: Tensor) -> Tensor:
        """Return what rounding may change, at |z| <= size, of a line through a value with a slope."""
        return ROUNDING[value.dtype] * (self.unit + value.abs() + slope.abs() * size) + self.departs

    def _mask_pole(self, box: Box) -> Box:
        """Return the box, NaN where it holds the pole."""
        if self.pole is None:
            return box
        # NaN: nothing is known there, as of roots and logarithms outside their domain
        outside = (box[0] > self.pole) | (box[1] < self.pole)
        return torch.where(outside, box[0], torch.nan), torch.where(outside, box[1], torch.nan)

    def _line(self, box: Box, side: int) -> tuple[Line, Choice | None]:
        """Return the line below (side 1) or above (side -1), found as the line below side · σ; and its choice."""
        # The chord, as the line below side · σ, and the lower of the offsets that its two ends ask for
        (low, high), middle = box, (box[0] + box[1]) / 2
        at_low, at_high = side * self(low), side * self(high)
        width = high - low
        chord = torch.where(width > 0, (at_high - at_low) / width, 0.0)
        size = torch.maximum(low.abs(), high.abs())
        chords = torch.minimum(at_low - chord * low, at_high - chord * high)
        chords = chords - self._room(torch.maximum(at_low.abs(), at_high.abs()), chord, size)
        piece = self._piece(high, side)
        # Concave everywhere: nothing below it leaves less area than the chord
        if piece is None:
            return (side * chord, side * chords), None

        # the part [p, q] of the piece that is in the interval, and the places whose tangents are below σ at the ends
        (start, stop), somewhere = _inside(piece, box)
        p, q = torch.where(somewhere, start, middle), torch.where(somewhere, stop, middle)
        # Tangents from `first` to `last` are below σ at both ends; `before` and `behind` are the
        # last that were not
        first, before, from_low = self._touch(low, at_low, p, q, side, piece[0])
        last, behind, from_high = self._touch(high, at_high, q, p, side, piece[1])
        # Where one tangent touches at both ends, halving may leave `first` beyond `last`, with
        # brackets that overlap
        tangible = (width > 0) & somewhere & from_low & from_high & ((before < behind) | (first <= last))
        # the tangent next to the middle; at a kink where the piece ends, the line from there to the end of the interval
        t = torch.where(first <= last, torch.minimum(torch.maximum(middle, first), last), first)
        at_t, slope = side * self(t), side * self.slope(t)
        ordered = first <= last
        # Where the piece lies beyond the middle, a line from its edge to the end of the interval on
        # the other side is higher at the middle than the tangent there
        left = ordered & (middle < p) & (first == p)
        right = ordered & (middle > q) & (last == q)
        slope = torch.where(left, (at_t - at_low) / torch.where(left, t - low, 1.0), slope)
        slope = torch.where(right, (at_high - at_t) / torch.where(right, high - t, 1.0), slope)
        # Lowered by what it exceeds at either end, so that it is valid wherever the search ended
        offset = torch.minimum(torch.minimum(at_low - slope * low, at_high - slope * high), at_t - slope * t)
        offset = offset - self._room(at_t, slope, size)
        slope, offset = torch.where(tangible, slope, chord), torch.where(tangible, offset, chords)

        # α moves the point of tangency from `first` to `last`
        # A slope may be infinite, as that of √ is at 0
        steep = torch.maximum(self.slope(first).abs(), self.slope(last).abs())
        free = tangible & (first < last) & ~left & ~right & torch.isfinite(steep)
        usual = torch.where(free, (t - first) / (last - first), 0.0)
        # Elsewhere any place that σ has: what `where` leaves out must be finite, or gradients are NaN
        first, last = torch.where(free, first, middle), torch.where(free, last, middle)
        choice = Choice(partial(self.tangent, side), free, usual, first, last, size)
        return (side * slope, side * offset), choice

    def _piece(self, high: Tensor, side: int) -> tuple[Tensor | float, Tensor | float] | None:
        """Return the convex piece of side · σ on which lines may touch; of two, the right one where it is reached."""
        # Convex and concave in turns: every second piece is convex for this side
        edges = (-inf, *self.bends, inf)
        pieces = list(pairwise(edges))[0 if self.convex == (side == 1) else 1 :: 2]
        if len(pieces) < 2:
            return pieces[0] if pieces else None
        # Concave in the middle: of the convex pieces beside it the right one counts, wherever the
        # range has some of it
        (_, end), (begin, _) = pieces
        right = high > begin
        return torch.where(right, begin, -inf).to(high), torch.where(right, inf, end).to(high)

    def _touch(
        self, end: Tensor, value: Tensor, near: Tensor, far: Tensor, side: int, edge: Tensor | float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the place next to `near` whose tangent is below side · σ at an end of the interval, by halving.

        Returns:
            The place, the last one at which the tangent was not below (the place itself where it is `near`), and
            whether there is a place.
        """
        # The piece has no end on this side: its tangents are below it all the way
        if isinstance(edge, float) and abs(edge) == inf:
            return near, near, torch.ones_like(near, dtype=torch.bool)

        def below(t: Tensor) -> Tensor:
            return side * (self(t) + self.slope(t) * (end - t)) <= value

        at_once, anywhere = below(near), below(far)
        # Between `near`, whose tangent is too high, and `far`, whose tangent is not
        good, bad = torch.where(at_once, near, far), near
        for _ in range(HALVINGS[end.dtype]):
            t = (good + bad) / 2
            fits = below(t)
            good, bad = torch.where(fits, t, good), torch.where(fits, bad, t)
        # Where `near` itself serves, nothing was to be looked for
        good = torch.where(at_once, near, good)
        return good, torch.where(at_once, near, bad), at_once | anywhere


def _inside(piece: tuple[Tensor | float, Tensor | float], box: Box) -> tuple[Box, Tensor]:
    """Return the part of a piece in an interval, just inside its kinks, and whether there is one."""
    low, high = box
    start, stop = (torch.as_tensor(edge, dtype=low.dtype, device=low.device) for edge in piece)
    # At a kink itself the slope is that of one side only, perhaps the wrong one
    start = torch.maximum(low, torch.nextafter(start, torch.full_like(start, inf)))
    stop = torch.minimum(high, torch.nextafter(stop, torch.full_like(stop, -inf)))
    return (start, stop), start <= stop
