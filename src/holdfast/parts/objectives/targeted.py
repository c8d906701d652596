"""Impersonation: how near the disturbed image's representation has come to that of another image."""

from dataclasses import dataclass

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.divergences import divergence as find_divergence


@dataclass(frozen=True)
class Targeted(Objective):
    """Maximise -d(f(x'), f(t)) for the target image t of each image.

    Attributes:
        divergence: d, a name of `holdfast.numerics.geometry.divergences`.

    Source: Petrov & Kwiatkowska (2022), section 4 (targeted U-PGD).

    Example:
        >>> Targeted()(torch.tensor([[3.0, 0.0]]), torch.zeros(1, 2), torch.tensor([[0.0, 4.0]])).item()
        -5.0
    """

    divergence: str = "l2"
    needs_target = True

    def __post_init__(self) -> None:
        find_divergence(self.divergence)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return -d(f(x'), f(t)) for every image."""
        assert target is not None  # `pursue` has checked
        return -find_divergence(self.divergence)(reps, target)
