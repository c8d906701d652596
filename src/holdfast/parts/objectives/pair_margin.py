"""Confusion: how far the disturbed image has come towards being nearer to another image than to itself."""

from dataclasses import dataclass

from holdfast.core import AnyDivergence, Objective, PerImage, Reps
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.parts.divergences.cosine import Cosine


@dataclass(frozen=True)
class PairMargin(Objective):
    """Maximise -m(x'), m the pair margin that certifiers bound from below: positive while f(x') is nearer to f(x).

    cosine: m = (z - z⁻) · f(x'), z = f/||f||; l2: m = ||f(x') - f(x⁻)||² - ||f(x') - f(x)||²; see
    `LinearDivergence.between`.

    Attributes:
        divergence: how representations are compared; without linear margins m = d(f(x'), f(x⁻)) - d(f(x'), f(x)).

    Source: Wang & Liu (2023), Eq. 11 to 13: the attack that its certificate is the counterpart of.

    Example:
        >>> clean, target = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> PairMargin("l2")(torch.tensor([[0.0, 0.5]]), clean, target).item()
        1.0
    """

    divergence: AnyDivergence = Cosine()
    needs_target = True

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return -m for every image and its target."""
        assert target is not None  # `pursue` has checked
        # One row for each image: W_CL of Eq. 13 where the divergence is the cosine
        if not isinstance(self.divergence, LinearDivergence):
            return self.divergence.pursue(reps, clean) - self.divergence.pursue(reps, target)
        margin = self.divergence.between(clean, target[:, None])
        return -margin.to(reps)(reps).squeeze(1)
