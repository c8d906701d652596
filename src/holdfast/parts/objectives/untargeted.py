"""Drift: how far the disturbed image's representation has moved from its own."""

from dataclasses import dataclass

from holdfast.core import AnyDivergence, Objective, PerImage, Reps
from holdfast.parts.divergences.l2 import L2


@dataclass(frozen=True)
class Untargeted(Objective):
    """Maximise d(f(x'), f(x)).

    Attributes:
        divergence: d. With "l2" the gradient is that of the
            distance; its sign equals that of the squared distance, so sign steps are the same for both.

    Source: Petrov & Kwiatkowska (2022), section 4 (U-FGSM, U-PGD).

    Example:
        >>> Untargeted()(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).item()
        5.0
    """

    divergence: AnyDivergence = L2()

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return d(f(x'), f(x)) for every image."""
        return self.divergence.pursue(reps, clean)
