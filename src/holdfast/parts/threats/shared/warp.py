"""Images seen through a moved window."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Draws, Images


def warp(x: Images, turn: Float[Tensor, "batch draws 2 2"], move: Float[Tensor, "batch draws 2"]) -> Draws:
    """Each image at turn · p + move for all pixels p, bilinearly; beyond its edge the edge goes on.

    Args:
        x: images, [B, C, H, W].
        turn: acts on (row, column) from the image's centre, in pixels.
        move: rows and columns, in pixels.
    """
    height, width = x.shape[2:]
    rows = torch.arange(height, device=x.device, dtype=x.dtype) - (height - 1) / 2
    columns = torch.arange(width, device=x.device, dtype=x.dtype) - (width - 1) / 2
    places = torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1)
    # Where each pixel is seen: summed over j, the coordinates of p, [B, S, H, W, 2]
    shown = torch.einsum("bsij,hwj->bshwi", turn, places) + move[:, :, None, None]
    # Without align_corners -1 and 1 are the outer edges, H / 2 pixels from the centre
    half = torch.tensor([height / 2, width / 2], dtype=x.dtype, device=x.device)
    grid = (shown / half).flip(-1)  # shares of half a side, columns first
    tall = F.grid_sample(x, grid.flatten(1, 2), "bilinear", "border", align_corners=False)  # all draws in one column
    # [B, C, S · H, W] -> [B, S, C, H, W]
    return tall.unflatten(2, (-1, height)).transpose(1, 2).clamp(0, 1)
