"""What objectives of patches have in common: they read a representation token by token."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Encoder, Goal, HoldfastError, Images, Objective, PerImage, Reps
from holdfast.core.registry import part_name
from holdfast.numerics.geometry import patches
from holdfast.runtime.checked import Count

CAP = 0.05
"""Margin above which a patch counts as lost for good, so that a search turns to the others."""

Own = TypeVar("Own", bound="OfTokens")

Tokens = Float[Tensor, "batch patches token"]


@dataclass(frozen=True)
class OfTokens(Objective):
    """An objective that is a mean over the patches of an image.

    Attributes:
        dim: numbers in the token of a patch; None: what the encoder's grid says.
    """

    dim: Count | None = None

    def of(self: Own, encoder: Encoder) -> Own:
        """Return the objective for the tokens of an encoder.

        Raises:
            HoldfastError: an encoder without patches.
        """
        if encoder.grid is None:
            raise HoldfastError(f"{part_name(self)}: {no_patches(encoder)}")
        return replace(self, dim=encoder.grid.dim)

    def tokens(self, reps: Reps) -> Tokens:
        """Return representations token by token.

        Raises:
            HoldfastError: no `dim`, or one that does not divide them.
        """
        if self.dim is None or reps.shape[1] % self.dim:
            got = f"dim={self.dim} for representations of {reps.shape[1]} numbers"
            raise HoldfastError(f"{part_name(self)}: expected dim, numbers in a token, to divide them, got {got}")
        return reps.unflatten(1, (-1, self.dim))


@dataclass(frozen=True)
class OfMargins(OfTokens):
    """Maximise 1/P Σ_p min(m_p, 0.05), with m_p = (d_p - e_p) / (d_p + e_p).

    d_p: the distance of the token of patch p to its own; e_p: to the nearest of what it could be taken for. m_p is
    above 0 exactly where the patch is lost. What is lost counts no further: searches turn to the patches that are left.

    Attributes:
        divergence: "l2" or "cosine".
    """

    divergence: str = "l2"

    def __post_init__(self) -> None:
        patches.check(self.divergence)

    @abstractmethod
    def references(self, clean: Tokens) -> Any:
        """Return what tokens are compared with; a search asks once.

        Args:
            clean: tokens of the undisturbed images, as `compared` returns them.
        """

    @abstractmethod
    def distances(self, moved: Tokens, references: Any) -> tuple[Float[Tensor, "batch patches"], ...]:
        """Return d_p and e_p for every patch of every image.

        Args:
            moved: tokens of the disturbed images, as `compared` returns them.
            references: what `references` returned.
        """

    def compared(self, reps: Reps) -> Tokens:
        """Return tokens that are compared by Euclidean distance."""
        return patches.compared(self.tokens(reps), self.divergence)

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the mean of the margins for every image."""
        return self._mean(reps, self.references(self.compared(clean)))

    def pursue(self, encoder: Callable[[Images], Reps], clean: Reps, target: Reps | None = None) -> Goal:
        """Close over an encoder and the references."""
        objective = self.of(encoder) if isinstance(encoder, Encoder) else self
        references = objective.references(objective.compared(clean))

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = encoder(x)
            return objective._mean(reps, references), reps

        return goal

    def _mean(self, reps: Reps, references: Any) -> PerImage:
        return patches.margin(*self.distances(self.compared(reps), references)).clamp_max(CAP).mean(1)


def no_patches(encoder: Encoder) -> str:
    """Return why an encoder without a grid has no answer, and what to do."""
    return (
        f"expected an encoder of patches, got one vector per image from {encoder.name!r}; open it with ?pool=none, "
        "or ?layer=...&pool=none"
    )
