"""Motion blur along a line."""

import math
from collections import defaultdict

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images


def move(x: Images, degrees: Float[Tensor, "batch"], radius: int, deviation: float) -> Images:
    """Return Σ_i w_i x(p + ⌈i u - ½⌉) for i = 0 ... 2r and w_i ∝ exp(-i² / 2σ²): each image smeared along its own line.

    u = (sin, cos) of the angle, as (row, column), so that what is seen lies ahead and the image moves back. Beyond an
    image its edge goes on. This is the motion blur of ImageMagick, which the published generator calls.

    Args:
        x: images, [B, C, H, W].
        degrees: angles from the rows, [B]; 90 is down.
        radius: r, in image pixels.
        deviation: σ, in image pixels.
    """
    return torch.stack(
        [_along(image, line(angle, radius, deviation)) for image, angle in zip(x, degrees.tolist(), strict=True)]
    )


def line(angle: float, radius: int, deviation: float) -> dict[tuple[int, int], float]:
    """Return the (row, column) offsets of a line's pixels and the weight of each, which are 1 in all."""
    weights = [math.exp(-0.5 * (i / deviation) ** 2) for i in range(2 * radius + 1)]
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    pixels: defaultdict[tuple[int, int], float] = defaultdict(float)  # slanted lines meet some pixels twice
    for i, weight in enumerate(weights):
        pixels[math.ceil(i * down - 0.5), math.ceil(i * right - 0.5)] += weight / sum(weights)
    return dict(pixels)


def _along(
    image: Float[Tensor, "channel height width"], pixels: dict[tuple[int, int], float]
) -> Float[Tensor, "channel height width"]:
    """Return the image seen at some offsets at once, weighted.

    The padded image is one long line of numbers, and every offset is a distance along it.
    """
    rows, columns = zip(*pixels, strict=True)
    # How far the line goes up and to the left; its first pixel is (0, 0), so neither is negative
    top, left = -min(rows), -min(columns)
    wide = F.pad(image[None], (left, max(columns), top, max(rows)), mode="replicate")[0]
    pitch, flat = wide.shape[2], wide.flatten()
    # Places from which the farthest offset still lies on the line of numbers
    length = len(flat) - (top + max(rows)) * pitch - left - max(columns)
    out = torch.zeros_like(wide)
    for (row, column), weight in pixels.items():
        begin = (row + top) * pitch + column + left
        # Beyond the image's width this wraps into the next row; those places are cut away below
        out.view(-1)[:length].add_(flat[begin : begin + length], alpha=weight)
    return out[:, : image.shape[1], : image.shape[2]]
