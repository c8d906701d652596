"""Impersonation: how near the disturbed image's representation has come to that of another image."""

from dataclasses import dataclass

from holdfast.core import AnyDivergence, Objective, PerImage, Reps
from holdfast.parts.divergences.l2 import L2


@dataclass(frozen=True)
class Targeted(Objective):
    """Maximise -d(f(x'), f(t)) for the target image t of each image.

    Attributes:
        divergence: d.

    Source: Petrov & Kwiatkowska (2022), section 4 (targeted U-PGD).

    Example:
        >>> Targeted()(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.tensor([[0.0, 4.0]])).item()
        -5.0
    """

    divergence: AnyDivergence = L2()
    needs_target = True

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return -d(f(x'), f(t)) for every image."""
        assert target is not None  # `pursue` has checked
        return -self.divergence.pursue(reps, target)
