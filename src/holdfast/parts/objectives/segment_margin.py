"""Segments left: how much nearer the tokens of a disturbed image are to other segments than to their own."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.geometry import patches
from holdfast.parts.objectives.shared.tokens import OfMargins, Tokens, Values
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class SegmentMargin(OfMargins):
    """Maximise 1/P Σ_p min(m_p, 0.05), m_p = (d_p² - e_p²) / g_p.

    The clean tokens of an image are clustered into segments. d_p: the distance of the token of patch p to the centre of
    its own segment; e_p: to the nearest other centre; g_p: e_p² - d_p² before the attack. m_p is -1 there, and above 0
    exactly where the patch leaves its segment.

    Attributes:
        segments: how many for each image, at most.

    Source: the weights of Gu et al. (2022), with margins of segments instead of a loss of labels.

    Example:
        >>> clean, moved = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([[0.0, 1.0, 1.0, 0.75]])
        >>> round(SegmentMargin(segments=2, dim=1)(moved, clean).item(), 4)  # -1, 0.05, -1, -0.5
        -0.6125
    """

    segments: Count = 4

    def references(self, clean: Tokens) -> tuple[Tensor, Tensor]:
        """Return the centres of each image's segments, infinite where it has fewer, and the segment of each patch."""
        centres = clean.new_full((len(clean), self.segments, clean.shape[2]), torch.inf)
        own = []
        # Image by image: each has clusters of its own, [segments, D]
        for place, image in enumerate(clean):
            middles, segment = patches.segments(image, self.segments)
            centres[place, : len(middles)] = middles
            own.append(segment)
        return centres, torch.stack(own)

    def distances(self, moved: Tokens, references: Any) -> tuple[Values, Values]:
        """Return the distance of every patch to the centre of its segment, and to the nearest other one, squared."""
        centres, own = references
        absent = centres.isinf().any(2)[:, None]
        # one that is absent stands where the first does: a point at 0 would draw the middle of all there
        apart = patches.square_distances(moved, torch.where(centres.isinf(), centres[:, :1], centres))
        # [B, patches, segments]
        apart = apart.masked_fill(absent, torch.inf)
        at = own[..., None]
        return apart.gather(2, at).squeeze(2), apart.scatter(2, at, torch.inf).amin(2)
