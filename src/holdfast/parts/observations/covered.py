"""Covered images: representations of images of which one patch is grey."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Grid, Images, Passes, Shard
from holdfast.parts.objectives.shared.tokens import no_patches
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import represent
from holdfast.runtime.errors import Mismatch, Unsupported

GREY = 0.5
"""What the pixels of the covered patch become."""


@dataclass(frozen=True)
class Covered(OfFirst):
    """f(x') of images of which the pixels of one patch are grey, as `reps` [M, D], and which one, as `place` [M].

    The patch is drawn by the image's id.
    """

    @property
    @override
    def title(self) -> str:
        return "one patch covered"

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Cover a patch of every image of one shard, and represent it.

        Raises:
            HoldfastError: an encoder without patches, or of more of them than pixels.
        """
        grid = shard.encoder.grid
        if grid is None:
            raise Unsupported(f"covered: {no_patches(shard.encoder)}")
        place = (shard.rng.child("covered").uniform(1)[:, 0] * grid.patches).long()
        return {"reps": represent(shard, cover_patch(shard.x, grid, place)), "place": place}


def cover_patch(x: Images, grid: Grid, place: Int[Tensor, "batch"]) -> Images:
    """Return images of which the pixels of one patch each are grey.

    Args:
        x: images, [B, C, H, W].
        grid: of their patches, which divide them evenly, up to rounding.
        place: which patch, from left to right and from top to bottom.

    Raises:
        HoldfastError: more rows or columns of patches than of pixels.
    """
    (height, width), (rows, columns) = x.shape[2:], (grid.rows, grid.columns)
    if rows > height or columns > width:
        raise Mismatch(f"covered: expected patches of a pixel or more, got {grid.in_words} of {height} × {width}")
    # Which row (column) of patches each row (column) of pixels belongs to, also
    # where they do not divide evenly
    row = torch.arange(height, device=x.device) * rows // height == (place // columns).to(x.device)[:, None]
    column = torch.arange(width, device=x.device) * columns // width == (place % columns).to(x.device)[:, None]
    return torch.where((row[:, :, None] & column[:, None])[:, None], GREY, x)
