"""Segments kept: how many patches of an attacked image stay in their segment."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Objective, Subject, Table
from holdfast.core.divergence import require
from holdfast.numerics.geometry import patches
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.parts.measures.shared.patches import TIE, PatchMeasure
from holdfast.parts.objectives.segment_margin import SegmentMargin
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class SegmentKept(PatchMeasure):
    """k(x) = 1/P Σ_p 1[no other centre is nearer to t_p(x̂) than that of p's segment], strict; the mean over images.

    The segments are those of k-means of the clean tokens of each image. The attack pursues patches that leave.

    Table, one row per attacked image: `kept@STEP`; undefined (left out, counted) where all patches are alike.

    Attributes:
        segments: how many for each image; fewer where it has fewer different patches.
    """

    objective: Objective = SegmentMargin()
    segments: Count = 4

    usual = (5, 10, 30, 50)
    per_image = "kept"
    better = "higher"
    in_brief = True
    unit = "share"
    question = "After an attack, what share of an image's patches is still in the segment that it was in?"
    how_to_read = (
        "100 % means that a segmentation by the clean tokens of the image stays as it was. What is left by chance is "
        "the share of the largest segment, or less: 25 % of four segments of equal size."
    )
    reference = "segments by k-means of patch tokens, as in Amir et al. (2022); attacks as in Gu et al. (2022)"

    def __post_init__(self) -> None:
        require(self.divergence, EuclideanDivergence, "divergence of patches")
        super().__post_init__()

    @property
    def compares(self) -> dict[str, object]:
        """Divergence, and segments of an objective that has them."""
        segments = {"segments": self.segments} if isinstance(self.objective, SegmentMargin) else {}
        return super().compares | segments

    def observe(self, subject: Subject) -> Table:
        """Return the share of every attacked image's patches that stay.

        Raises:
            HoldfastError: an encoder without patches, or of fewer patches than segments.
        """
        clean, attacked = self.tokens(subject)
        # Segments are made once of the clean tokens, and stay where they are under attack
        before = [self.divergence.points(image.double()) for image in clean[: subject.attacked]]
        segmented = [patches.segments(image, self.segments) for image in before]
        table: Table = {}
        for step, moved in attacked.items():
            shares = [self._measure_kept(image, *known) for image, known in zip(moved, segmented, strict=True)]
            table[f"kept@{step}"] = torch.tensor(shares, dtype=torch.float64)
        return table

    def _measure_kept(self, moved: Float[Tensor, "patches dim"], centres: Tensor, own: Tensor) -> float:
        if len(centres) < 2:
            return torch.nan
        tokens = self.divergence.points(moved)
        # [P, segments] from differences: a matrix product could decide near ties by rounding
        apart = torch.cdist(tokens, centres, compute_mode="donot_use_mm_for_euclid_dist")
        # Strictly nearer than the own centre; equal distances are no change
        left = apart.amin(1) < apart.gather(1, own[:, None]).squeeze(1) * (1 - TIE)
        return float((~left).double().mean())
