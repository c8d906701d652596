"""Drift: how far the disturbed image's representation has moved from its own."""

from dataclasses import dataclass

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.divergences import divergence as find_divergence


@dataclass(frozen=True)
class Untargeted(Objective):
    """Maximise d(f(x'), f(x)).

    Attributes:
        divergence: d, a name of `holdfast.numerics.geometry.divergences`. With "l2" the gradient is that of the
            distance; its sign equals that of the squared distance, so sign steps are the same for both.

    Source: Petrov & Kwiatkowska (2022), section 4 (U-FGSM, U-PGD).

    Example:
        >>> Untargeted()(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).item()
        5.0
    """

    divergence: str = "l2"

    def __post_init__(self) -> None:
        find_divergence(self.divergence)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return d(f(x'), f(x)) for every image."""
        return find_divergence(self.divergence)(reps, clean)
