"""Rectangular windows of an image: where they lie, and which of all places is best."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

Size = tuple[int, int]
"""Height and width of a window, in pixels."""


def sums(values: Float[Tensor, "*batch height width"], size: Size) -> Float[Tensor, "*batch down across"]:
    """Return the sum of values over the window at every place, [*, H - h + 1, W - w + 1].

    Example:
        >>> sums(torch.eye(3), (2, 2)).tolist()
        [[2.0, 1.0], [1.0, 2.0]]
    """
    flat = values.reshape(-1, 1, *values.shape[-2:])
    for side in ((size[0], 1), (1, size[1])):  # rows and columns one after the other: h + w additions in place of h · w
        flat = F.avg_pool2d(flat, side, stride=1, divisor_override=1)
    return flat.reshape(*values.shape[:-2], *flat.shape[-2:])


def rectangle(
    top: int | Tensor, left: int | Tensor, size: Size, over: Size, device: torch.device | None = None
) -> Bool[Tensor, "*batch height width"]:
    """Return which pixels of an image of the size `over` lie in the window whose first pixel is at (top, left).

    Example:
        >>> rectangle(1, 0, (1, 2), (2, 3)).int().tolist()
        [[0, 0, 0], [1, 1, 0]]
    """
    sides = []
    for first, length, whole in zip((top, left), size, over, strict=True):
        pixels = torch.arange(whole, device=device)
        start = first[..., None] if isinstance(first, Tensor) else first
        sides.append((pixels >= start) & (pixels < start + length))
    return sides[0][..., :, None] & sides[1][..., None, :]


def best(
    gain: Float[Tensor, "*batch height width"], size: Size, among_equals: Float[Tensor, "*batch height width"]
) -> Bool[Tensor, "*batch height width"]:
    """Return the window with the largest sum of gains; among equal ones that with the largest sum of another value.

    Example:
        >>> row = torch.tensor([[0.0, 1.0, 0.0, 1.0]])
        >>> best(row, (1, 2), torch.tensor([[0.0, 0.0, 0.0, 3.0]])).int().tolist()
        [[0, 0, 1, 1]]
    """
    total = sums(gain, size).flatten(-2)
    other = sums(among_equals, size)
    # Among the places with the largest sum the one where the other value
    # is largest; numbered row by row
    place = torch.where(total >= total.amax(-1, keepdim=True), other.flatten(-2), -torch.inf).argmax(-1)
    across = other.shape[-1]
    return rectangle(place // across, place % across, size, (gain.shape[-2], gain.shape[-1]), gain.device)


def spread(moved: Bool[Tensor, "*batch height width"]) -> tuple[Tensor, Tensor]:
    """Return the height and the width of the smallest window that holds all pixels that moved, 0 where none did."""
    extents = []
    for side in (moved.any(-1), moved.any(-2)):
        # The first row (column) that changed, and the last one, as the first from behind
        first = side.int().argmax(-1)
        last = side.shape[-1] - 1 - side.flip(-1).int().argmax(-1)
        extents.append(torch.where(side.any(-1), last - first + 1, 0))
    return extents[0], extents[1]
