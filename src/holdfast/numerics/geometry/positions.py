"""Where in the image the values of a layer belong: feature maps, and the tokens of patches behind class tokens."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

PREFIX = 16
"""Tokens, at most, that a transformer puts before those of its patches: class token and registers."""

Features = Float[Tensor, "batch channel rows columns"]


@dataclass(frozen=True)
class Arrangement:
    """How the output of a layer is a map of the image.

    Attributes:
        rows: positions from top to bottom.
        columns: positions from left to right.
        layout: [B, C, h, w], [B, h, w, C], or tokens [B, T, C].
        prefix: tokens before those of patches.

    Example:
        >>> tokens = torch.arange(5.0).view(1, 5, 1)
        >>> Arrangement(2, 2, "tokens", prefix=1).features(tokens).tolist()
        [[[[1.0, 2.0], [3.0, 4.0]]]]
    """

    rows: int
    columns: int
    layout: Literal["channels first", "channels last", "tokens"]
    prefix: int = 0

    def features(self, value: Tensor) -> Features:
        """Return the output as [B, C, h, w]."""
        match self.layout:
            case "channels first":
                return value
            case "channels last":
                return value.movedim(-1, 1)
            case "tokens":
                # [B, T, C] to [B, C, h, w]
                return value[:, self.prefix :].transpose(1, 2).unflatten(2, (self.rows, self.columns))


def arrangement(
    shape: Sequence[int], size: tuple[int, int], grids: Sequence[tuple[int, int]] = ()
) -> Arrangement | None:
    """Return how an output is a map of the image; None where it has no positions like those of the image.

    Args:
        shape: of the output: maps, or tokens, those of patches last.
        size: height and width of the image.
        grids: rows and columns of maps before it: patches are usually made by a convolution. Where none fits,
            tokens are taken to be the largest square, behind what is left.

    Example:
        >>> arrangement((2, 197, 768), (224, 224))
        Arrangement(rows=14, columns=14, layout='tokens', prefix=1)
    """
    if len(shape) == 4:
        if like((shape[2], shape[3]), size):
            return Arrangement(shape[2], shape[3], "channels first")
        if like((shape[1], shape[2]), size):
            return Arrangement(shape[1], shape[2], "channels last")
    if len(shape) == 3:
        side = math.isqrt(shape[1])
        # The last map before it is the likeliest to be that of the patches
        for rows, columns in (*reversed(grids), (side, side)):
            if rows * columns > 1 and 0 <= shape[1] - rows * columns <= PREFIX:
                return Arrangement(rows, columns, "tokens", shape[1] - rows * columns)
    return None


def like(grid: tuple[int, int], size: tuple[int, int]) -> bool:
    """Whether positions cover an image: several, not more than pixels, in its proportions up to rounding.

    Example:
        >>> like((7, 7), (224, 224)), like((7, 768), (224, 224))
        (True, False)
    """
    (rows, columns), (height, width) = grid, size
    fits = rows * columns > 1 and rows <= height and columns <= width
    # Where both sides are divided by one number and rounded alike, this is at most the longer side
    return fits and abs(rows * width - columns * height) <= max(height, width)
