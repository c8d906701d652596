"""Confusion: how far the disturbed image has come towards being nearer to another image than to itself."""

from dataclasses import dataclass

from holdfast.core import Objective, PerImage, Reps
from holdfast.numerics.geometry.margins import DIVERGENCES, between
from holdfast.runtime.errors import unknown


@dataclass(frozen=True)
class PairMargin(Objective):
    """Maximise -m(x'), m the pair margin that certifiers bound from below: positive while f(x') is nearer to f(x).

    cosine: m = (z - z⁻) · f(x'), z = f/||f||; l2: m = ||f(x') - f(x⁻)||² - ||f(x') - f(x)||²; see `margins.between`.

    Attributes:
        divergence: "cosine" or "l2".

    Source: Wang & Liu (2023), Eq. 11 to 13: the attack that its certificate is the counterpart of.

    Example:
        >>> clean, target = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> PairMargin("l2")(torch.tensor([[0.0, 0.5]]), clean, target).item()
        1.0
    """

    divergence: str = "cosine"
    needs_target = True

    def __post_init__(self) -> None:
        if self.divergence not in DIVERGENCES:
            raise unknown("divergence with a linear margin", self.divergence, DIVERGENCES)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return -m for every image and its target."""
        assert target is not None  # `pursue` has checked
        # One row for each image: W_CL of Eq. 13 where the divergence is the cosine
        margin = between(clean, target[:, None], self.divergence)
        return -margin.to(reps)(reps).squeeze(1)
