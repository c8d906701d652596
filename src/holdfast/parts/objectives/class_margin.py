"""The class margin: how far the strongest other class is ahead of the image's own."""

from dataclasses import dataclass

import torch

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.invariance import LENGTHS
from holdfast.runtime.errors import BadValue, Mismatch


@dataclass(frozen=True)
class ClassMargin(Objective):
    """Maximise max_{j≠y} z_j - z_y on logits z: at least 0 exactly where the image is not classified as y.

    The representations are the logits of a classifier, and the target is one-hot: 1 at the class y of each image.

    Attributes:
        rank: 0 goes for whichever class is strongest; k for the k-th strongest other class t of the undisturbed image,
            z_t - z_y. The strongest class need not be the one with the nearest boundary.

    Source: Carlini & Wagner (2017), f_6 with κ = ∞.

    Example:
        >>> clean, disturbed = torch.tensor([[3.0, 1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0, 0.0]])
        >>> one_hot = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        >>> round(ClassMargin()(disturbed, clean, one_hot).item(), 3)
        1.0
    """

    invariant = LENGTHS

    rank: int = 0

    needs_target = True
    of_logits = True

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return z_j - z_y for logits [B, C], those of the undisturbed images and one-hot targets; see `ahead`."""
        assert target is not None  # `pursue` has checked
        return ahead(reps, clean, target, self.rank)


def check_rank(rank: int) -> None:
    """Refuse a rank that no class has."""
    if rank < 0:
        raise BadValue(f"rank: expected 0 (the strongest class) or 1, 2, ... (a fixed one), got {rank}")


def ahead(logits: Reps, clean: Reps, target: Reps, rank: int) -> PerImage:
    """Return max_{j≠y} z_j - z_y, or z_t - z_y for the class t of a rank; y is where the target is largest.

    Args:
        logits: z, [B, C].
        clean: logits of the undisturbed images, which rank the other classes, [B, C].
        target: one-hot, [B, C].
        rank: 0, or t's place among the other classes.

    Raises:
        HoldfastError: fewer other classes than the rank, or none at all.
    """
    if logits.shape[1] < max(rank, 1) + 1:
        raise Mismatch(
            f"objectives of classes: expected logits of at least {max(rank, 1) + 1} classes, got {logits.shape[1]}; "
            + ("take a lower rank" if rank > 1 else "attack the representation itself with untargeted or targeted")
        )
    own = target.argmax(1, keepdim=True)
    own_logit = logits.gather(1, own).squeeze(1)
    if not rank:
        # -inf takes y out of the maximum
        return logits.scatter(1, own, -torch.inf).amax(1) - own_logit
    # t is ranked by the undisturbed image, so it stays the same while an attack runs
    rival = clean.scatter(1, own, -torch.inf).topk(rank, dim=1).indices[:, -1:]
    return logits.gather(1, rival).squeeze(1) - own_logit
