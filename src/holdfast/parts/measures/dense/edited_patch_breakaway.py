"""Edited patch breakaway: how many patches of an image are taken for others after everyday edits."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table, Threat
from holdfast.core.divergence import require
from holdfast.numerics.geometry.divergence import EuclideanDivergence
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure
from holdfast.parts.measures.shared.patches import grid_of, measure_breakaway_within
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.imagenet_c import ImagenetC
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale

IN_PLACE: tuple[Threat, ...] = (
    Jpeg(75),
    Jpeg(30),
    Rescale(0.5),
    Gaussian(8 / 255),
    ImagenetC("brightness", 2),
    ImagenetC("contrast", 1),
)
"""Edits that leave every patch at its place: two qualities of JPEG, half the size, noise, more light, less contrast."""


@dataclass(frozen=True)
class EditedPatchBreakaway(DisturbedMeasure):
    """b(x) = 1/P Σ_p 1[min_{q≠p} d(t_p(c(x)), t_q(x)) < d(t_p(c(x)), t_p(x))] for each edit c; the mean over images.

    Patch breakaway without an adversary: within the image, and for edits that leave patches at their places. Patches
    whose clean tokens are as good as equal (a thousandth of the mean distance) are no rivals.

    Table, one row per image: `lost@TITLE` of each edit, `lost`, their mean.

    Attributes:
        divergence: how tokens are compared, "l2" or "cosine".
    """

    threats: tuple[Threat, ...] = IN_PLACE
    divergence: AnyDivergence = L2()

    per_image = "lost"
    better = "lower"
    in_brief = True
    unit = "share"
    question = (
        "After an everyday edit, what share of an image's patches is closer to another patch than to what it was?"
    )
    how_to_read = (
        "0 % means that every patch is still found at its place. What an attack adds to this is the difference to "
        "patch breakaway."
    )
    reference = "patch breakaway, under edits as in Douze et al. (2021)"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.divergence, EuclideanDivergence, "divergence of patches")

    def observe(self, subject: Subject) -> Table:
        """Return the share of every image's patches that are lost under every edit.

        Raises:
            HoldfastError: an encoder without patches.
        """
        grid, (clean, disturbed) = grid_of(self, subject), self.read_reps(subject)
        return self.add_average(
            {title: self._measure_lost(grid.tokens(reps), clean) for title, reps in disturbed.items()}
        )

    def _measure_lost(self, moved: Float[Tensor, "images patches token"], clean: Tensor) -> Float[Tensor, "images"]:
        before = clean[: len(moved)].view_as(moved)
        # Image by image: the distances of all patches of many images would not fit
        shares = [measure_breakaway_within(m, c, self.divergence) for m, c in zip(moved, before, strict=True)]
        return torch.tensor(shares, dtype=torch.float64)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the share."""
        return Mean(table[column], most=1.0)
