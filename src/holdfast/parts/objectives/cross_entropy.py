"""Cross-entropy: how unlikely a classifier holds the image's class."""

from dataclasses import dataclass

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.invariance import NOTHING


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Maximise -Σ_j t_j log softmax(z)_j on logits z, t one-hot: 1 at the class y of each image.

    The representations are the logits of a classifier. Where the class is certain beyond the precision of numbers the
    gradient vanishes; `dlr` and `class_margin` go on there.

    Source: Madry et al. (2018); APGD-CE of Croce & Hein (2020a).

    Example:
        >>> clean, disturbed = torch.tensor([[3.0, 1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0, 0.0]])
        >>> one_hot = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        >>> round(CrossEntropy()(disturbed, clean, one_hot).item(), 3)
        1.494
    """

    invariant = NOTHING

    needs_target = True
    of_logits = True

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the loss, in nats, for logits [B, C] and one-hot targets [B, C]."""
        assert target is not None  # `pursue` has checked
        return -(target * reps.log_softmax(1)).sum(1)
