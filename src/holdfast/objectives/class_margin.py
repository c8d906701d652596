"""The class margin: how far the strongest other class is ahead of the image's own."""

from dataclasses import dataclass

import torch

from holdfast.core import HoldfastError, Objective, PerImage, Reps


@dataclass(frozen=True)
class ClassMargin(Objective):
    """Maximise max_{j≠y} z_j - z_y on logits z: at least 0 exactly where the image is not classified as y.

    The representations are the logits of a classifier, and the target is one-hot: 1 at the class y of each image.

    Source: Carlini & Wagner (2017), "Towards evaluating the robustness of neural networks", f_6 with κ = ∞.
    """

    needs_target = True

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return max_{j≠y} z_j - z_y for logits [B, C] and one-hot targets [B, C]; see `ahead`."""
        assert target is not None  # `pursue` has checked
        return ahead(reps, target)


def ahead(logits: Reps, target: Reps) -> PerImage:
    """Return max_{j≠y} z_j - z_y for every image, y being where its target is largest.

    Raises:
        HoldfastError: a single class, which nothing can be confused with.
    """
    if logits.shape[1] < 2:
        raise HoldfastError(
            f"objectives of classes: expected logits of at least 2 classes, got {logits.shape[1]}; attack the "
            "representation itself with untargeted or targeted"
        )
    own = target.argmax(1, keepdim=True)
    return logits.scatter(1, own, -torch.inf).amax(1) - logits.gather(1, own).squeeze(1)
