"""The difference of logits ratio: a classification loss that neither shifting nor scaling the logits changes."""

from dataclasses import dataclass

import torch

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.invariance import LENGTHS
from holdfast.parts.objectives.class_margin import ahead, check_rank

FEWEST = 4
"""Classes that the ratio takes."""

TINY = 1e-12


@dataclass(frozen=True)
class Dlr(Objective):
    """Maximise -(z_y - max_{j≠y} z_j) / (z_π1 - z_π3) on logits z, π sorting them from the largest to the smallest.

    The representations are the logits of a classifier, and the target is one-hot: 1 at the class y of each image.
    Towards one class t it is -(z_y - z_t) / (z_π1 - (z_π3 + z_π4) / 2).

    Below 4 classes the ratio is of no use: of two there is no third, and of three the last class alone stretches the
    scale, at whose end the loss stays 1. There we take the scale from the undisturbed image x, which the attack cannot
    move: (max_{j≠y} z_j - z_y) / (max z(x) - min z(x)), just as indifferent to shifts and scales.

    Equal logits have the value 0: no scale is taken for smaller than 1e-12.

    Attributes:
        rank: 0 goes for whichever class is strongest; k for the k-th strongest other class t of the undisturbed image.

    Source: Croce & Hein (2020a), Eq. 6 and 7; the substitute is ours.

    Example:
        >>> clean, disturbed = torch.tensor([[3.0, 1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0, 0.0]])
        >>> one_hot = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        >>> round(Dlr()(disturbed, clean, one_hot).item(), 3)
        0.5
    """

    invariant = LENGTHS

    rank: int = 0

    needs_target = True
    of_logits = True

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the loss for logits [B, C], those of the undisturbed images [B, C] and one-hot targets [B, C]."""
        assert target is not None  # `pursue` has checked
        gap = ahead(reps, clean, target, self.rank)
        if reps.shape[1] < FEWEST:
            return gap / (clean.amax(1) - clean.amin(1)).clamp_min(TINY)
        first, _, third, fourth = torch.topk(reps, 4, dim=1).values.unbind(1)
        # Eq. 7 of Croce & Hein towards a class, Eq. 6 without one
        scale = first - (third + fourth) / 2 if self.rank else first - third
        return gap / scale.clamp_min(TINY)
