"""Edges of pictures (Canny), and the distance to them (chamfer)."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

Grey = Float[Tensor, "batch 1 height width"]
Mask = Bool[Tensor, "batch 1 height width"]

DIAGONAL, KNIGHT = 1.4, 2.1969
"""Lengths of a diagonal step and of a knight's move, in whole 65,536ths; a straight step is 1."""


def edges(x: Grey, low: float, high: float) -> Mask:
    """Pixels where |∂₁x| + |∂₂x| is above `low` and highest across the edge, and linked to one above `high`.

    Derivatives are Sobel's. "Across" is along a row, a column or a diagonal, whichever is nearest to the gradient; on a
    ridge of equal values the first pixel is the edge.

    Source: Canny (1986), "A computational approach to edge detection", as in OpenCV with |.|₁.
    """
    # Sobel's derivatives and their size |∂₁x| + |∂₂x|
    wide = F.pad(x, (1, 1, 1, 1), mode="replicate")
    smooth_rows = wide[:, :, :-2] + 2 * wide[:, :, 1:-1] + wide[:, :, 2:]
    smooth_columns = wide[..., :-2] + 2 * wide[..., 1:-1] + wide[..., 2:]
    right = smooth_rows[..., 2:] - smooth_rows[..., :-2]
    down = smooth_columns[:, :, 2:] - smooth_columns[:, :, :-2]
    size = right.abs() + down.abs()
    # Zero beyond the image, so that no pixel at its edge loses to a neighbour that is not there
    at = F.pad(size, (1, 1, 1, 1))

    def beside(row: int, column: int) -> Grey:
        return at[:, :, 1 + row : 1 + row + x.shape[2], 1 + column : 1 + column + x.shape[3]]

    # non-maximum suppression: compare with both neighbours across the edge, by the gradient's octant
    flat = round(math.tan(math.pi / 8) * 2**15) / 2**15  # tan 22.5° in OpenCV's fixed point; tan 67.5° is 2 more
    along_rows = down.abs() < flat * right.abs()
    along_columns = down.abs() > (flat + 2) * right.abs()
    falling = (right < 0) == (down < 0)  # the gradient points to the lower right, or to the upper left
    highest = torch.where(
        along_rows,
        (size > beside(0, -1)) & (size >= beside(0, 1)),
        torch.where(
            along_columns,
            (size > beside(-1, 0)) & (size >= beside(1, 0)),
            torch.where(
                falling,
                (size > beside(-1, -1)) & (size > beside(1, 1)),
                (size > beside(-1, 1)) & (size > beside(1, -1)),
            ),
        ),
    )
    # hysteresis: strong edges grow along candidates until nothing changes
    candidates = highest & (size > low)
    strong = candidates & (size > high)
    while not torch.equal(strong, grown := candidates & _dilate(strong)):
        strong = grown
    return strong


def _dilate(mask: Mask) -> Mask:
    """Where a pixel or one of its eight neighbours is marked."""
    # Along columns, then along rows of what that gave: together all eight neighbours
    for dim in (2, 3):
        length = mask.shape[dim] - 1
        wider = mask.clone()
        wider.narrow(dim, 1, length).logical_or_(mask.narrow(dim, 0, length))
        wider.narrow(dim, 0, length).logical_or_(mask.narrow(dim, 1, length))
        mask = wider
    return mask


def distance(to: Mask) -> Float[Tensor, "batch 1 height width"]:
    """Return each pixel's distance to the nearest marked one along straight, diagonal and knight's moves, in pixels.

    Two passes over the rows: down, each reading the two above it, then up. Within a row, distances grow by 1 from left
    to right, d_j = min(d_j, d_j-1 + 1), which is a running minimum of d_j - j.

    Source: Borgefors (1986), "Distance transformations in digital images", with OpenCV's lengths for 5 x 5.
    """
    # More than any path across the image is long
    far = float(sum(to.shape[2:]) * 4)
    height, width = to.shape[2:]
    out = F.pad(torch.where(to[:, 0], 0.0, far).double(), (2, 2, 2, 2), value=far)
    ramp = torch.arange(width, dtype=out.dtype, device=out.device)
    # Rounded as OpenCV's fixed-point lengths are; float64 then adds them exactly
    diagonal, knight = round(DIAGONAL * 2**16) / 2**16, round(KNIGHT * 2**16) / 2**16
    for _ in range(2):
        # row by row: steps of a knight, a diagonal or a side from the rows above, then along the row
        for row in range(2, height + 2):
            above, second_above = out[:, row - 1], out[:, row - 2]
            steps = [
                out[:, row, 2:-2],
                above[:, 2:-2] + 1,
                torch.minimum(above[:, 1:-3], above[:, 3:-1]) + diagonal,
                torch.minimum(
                    torch.minimum(above[:, :-4], above[:, 4:]),
                    torch.minimum(second_above[:, 1:-3], second_above[:, 3:-1]),
                )
                + knight,
            ]
            nearest = torch.stack(steps).amin(0)
            # In place, as later rows of this pass read it
            out[:, row, 2:-2] = (nearest - ramp).cummin(1).values + ramp
        # The second pass is the first one on the turned image; two turns bring it back
        out = out.flip(1, 2)
    return out[:, None, 2:-2, 2:-2]
