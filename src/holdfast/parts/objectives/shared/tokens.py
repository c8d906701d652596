"""What objectives of patches have in common: they read a representation token by token."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Encoder, Goal, Images, Objective, PerImage, Reps
from holdfast.core.divergence import require
from holdfast.core.registry import part_name
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.parts.divergences.l2 import L2
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import Mismatch, Unsupported

CAP = 0.05
"""Margin above which a patch counts as lost for good, so that a search turns to the others."""

Own = TypeVar("Own", bound="OfTokens")

NARROW = 0.05
"""Share of an image's mean g_p that each is at least: patches at the edge of two segments would outweigh all others."""

Tokens = Float[Tensor, "batch patches token"]
Values = Float[Tensor, "batch patches"]


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
            raise Unsupported(f"{part_name(self)}: {no_patches(encoder)}")
        return replace(self, dim=encoder.grid.dim)

    def tokens(self, reps: Reps) -> Tokens:
        """Return representations token by token.

        Raises:
            HoldfastError: no `dim`, or one that does not divide them.
        """
        if self.dim is None or reps.shape[1] % self.dim:
            got = f"dim={self.dim} for representations of {reps.shape[1]} numbers"
            raise Mismatch(f"{part_name(self)}: expected dim, numbers in a token, to divide them, got {got}")
        return reps.unflatten(1, (-1, self.dim))


@dataclass(frozen=True)
class OfMargins(OfTokens):
    """Maximise 1/P Σ_p min(m_p, 0.05), with m_p = (d_p² - e_p²) / g_p.

    d_p: the distance of the token of patch p to its own; e_p: to the nearest of what it could be taken for; g_p: e_p² -
    d_p² of the undisturbed image. m_p is -1 there, and above 0 exactly where the patch is lost; towards each rival it
    is linear in the token, so that a search is not led away from its own to where no rival is. What is lost counts no
    further: searches turn to the patches that are left.

    Attributes:
        divergence: "l2" or "cosine".
    """

    divergence: AnyDivergence = L2()

    def __post_init__(self) -> None:
        require(self.divergence, EuclideanDivergence, "divergence of patches")

    @abstractmethod
    def references(self, clean: Tokens) -> Any:
        """Return what tokens are compared with; a search asks once.

        Args:
            clean: tokens of the undisturbed images, as `to_euclidean` returns them.
        """

    @abstractmethod
    def distances(self, moved: Tokens, references: Any) -> tuple[Values, Values]:
        """Return d_p² and e_p² for every patch of every image; e_p² is infinite where there is no rival.

        Args:
            moved: tokens of the disturbed images, as `to_euclidean` returns them.
            references: what `references` returned.
        """

    def to_euclidean(self, reps: Reps) -> Tokens:
        """Return tokens that are compared by Euclidean distance."""
        return self.divergence.points(self.tokens(reps))

    def margins(self, clean: Reps) -> Callable[[Reps], Values]:
        """Return m_p as a function of the representations of these images, disturbed."""
        before = self.to_euclidean(clean)
        references = self.references(before)
        own, rival = self.distances(before, references)
        # A patch that nothing can be taken for has no rival
        exists = rival.isfinite()
        gap = torch.where(exists, rival - own, 0.0)
        # The mean is over patches with a rival; without that floor a few edge patches rule the objective
        gap = gap.maximum(NARROW * gap.sum(1, keepdim=True) / exists.sum(1, keepdim=True).clamp_min(1))

        def margins(reps: Reps) -> Values:
            own, rival = self.distances(self.to_euclidean(reps), references)
            # Without a rival e_p² is infinite: 0 stands in for it, and -1 for the margin below
            apart = own - torch.where(exists, rival, 0.0)
            return torch.where(exists, apart / gap.clamp_min(torch.finfo(gap.dtype).tiny), -1.0)

        return margins

    def __call__(self, reps: Reps, clean: Reps, target: Reps | None = None) -> PerImage:
        """Return the mean of the margins for every image."""
        return _mean(self.margins(clean)(reps))

    def pursue(self, encoder: Callable[[Images], Reps], clean: Reps, target: Reps | None = None) -> Goal:
        """Close over an encoder and what tokens are compared with."""
        # References are found once (k-means, say), not at every step
        margins = (self.of(encoder) if isinstance(encoder, Encoder) else self).margins(clean)

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = encoder(x)
            return _mean(margins(reps)), reps

        return goal


def _mean(margins: Values) -> PerImage:
    return margins.clamp_max(CAP).mean(1)


def no_patches(encoder: Encoder) -> str:
    """Return why an encoder without a grid has no answer, and what to do."""
    return (
        f"expected an encoder of patches, got one vector per image from {encoder.name!r}; open it with ?pool=none, "
        "or ?layer=...&pool=none"
    )
