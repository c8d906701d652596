"""Correspondence lost: how much nearer the tokens of a disturbed image are to other patches than to their own."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.numerics.geometry import patches
from holdfast.parts.objectives.shared.tokens import OfMargins, Tokens, Values


@dataclass(frozen=True)
class TokenMargin(OfMargins):
    """Maximise 1/P Σ_p min(m_p, 0.05), m_p = (d_p² - e_p²) / g_p.

    d_p: the distance of the token of patch p to what it was; e_p: to the nearest clean token of another patch of the
    image that is not like it; g_p: e_p² before the attack. m_p is -1 there, and above 0 exactly where the patch is
    taken for the other one.

    Source: the weights of Gu et al. (2022), with margins of correspondences instead of a loss of labels.

    Example:
        >>> clean, moved = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.25, 0.0]])
        >>> round(TokenMargin(dim=1)(moved, clean).item(), 3)  # 0.25² - 0.75², and 1, of which 0.05 count
        -0.225
    """

    def references(self, clean: Tokens) -> tuple[Tokens, Bool[Tensor, "batch patches patches"]]:
        """Return the clean tokens, and which patches can be taken for which."""
        return clean, patches.rivals(clean)

    def distances(self, moved: Tokens, references: Any) -> tuple[Values, Values]:
        """Return the distance of every patch to itself, and to the nearest other one, both squared."""
        clean, rivals = references
        # d_p² to the token of the same place, e_p² to the nearest one that is not like it, [B, patches] each
        return (moved - clean).square().sum(2), patches.square_distances(moved, clean).masked_fill(
            ~rivals, torch.inf
        ).amin(2)
