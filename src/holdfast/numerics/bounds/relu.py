"""ReLU: its range and its linear relaxation."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.numerics.bounds.box import Box
from holdfast.numerics.bounds.relaxation import Choice, Curved, Line, LinearRelaxation


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

    @override
    def slopes(self, box: Box) -> Box:
        return (box[0] >= 0).to(box[0]), (box[1] > 0).to(box[1])

    def relax(self, box: Box) -> LinearRelaxation:
        """Return the chord, and below z or 0 where the sign of z is open, by the side that is longer."""
        # The range cut at 0. Where the sign is known the chord is z or 0 itself, and exact
        low, high = box
        below, above = low.clamp_max(0), high.clamp_min(0)
        # The chord has the slope u / (u - l), see RVCL, Appendix C; of the range {0} it is 0 instead of 0 / 0
        chord = above / (above - below).clamp_min(1e-30)
        free = (low < 0) & (high > 0)
        # With z there is less area below the chord than with 0 if the range reaches farther above 0 than below
        slope = torch.where(free, (high > -low).to(low), chord)
        return LinearRelaxation(slope, None, chord, -chord * below, Choice(_through_zero, free, slope))


def _through_zero(slope: Tensor, size: Tensor | None) -> Line:
    return slope, None
