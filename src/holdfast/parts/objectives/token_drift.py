"""Drift of patches: how far the tokens of a disturbed image have moved from their own, on average."""

from dataclasses import dataclass

from holdfast.core import PerImage, Reps
from holdfast.parts.objectives.shared.tokens import OfTokens
from holdfast.parts.objectives.untargeted import Untargeted


@dataclass(frozen=True)
class TokenDrift(OfTokens, Untargeted):
    """Maximise 1/P Σ_p d(t_p(x'), t_p(x)) over the P patches of an image.

    Where `untargeted` may move a few tokens far, this moves all of them.

    Source: the sum over tokens or pixels of attacks on dense predictions, such as Xie et al. (2017), Eq. 1, with a
    divergence instead of a loss of labels.

    Example:
        >>> TokenDrift(dim=2)(torch.tensor([[3.0, 4.0, 0.0, 1.0]]), torch.zeros(1, 4)).item()
        3.0
    """

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the mean divergence of tokens for every image."""
        return self.divergence.pursue(self.tokens(reps), self.tokens(clean)).mean(1)
