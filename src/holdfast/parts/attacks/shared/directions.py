"""Directions in which images are moved without a gradient: noise, as it is or enlarged from small pictures."""

import torch
from torch import Tensor

from holdfast.core import Images, PerImage, Rng


def draw(like: Images, side: int, rng: Rng) -> Images:
    """Return noise, enlarged from a small picture of a side; 0, or one that is no smaller: as it is."""
    channels, height, width = like.shape[1:]
    if not 0 < side < min(height, width):
        return rng.normal(channels, height, width).to(like)
    small = rng.normal(channels, side, side).to(like)
    return torch.nn.functional.interpolate(small, (height, width), mode="bicubic", align_corners=False)


def along(way: Images, other: Images) -> Images:
    """Return the part of a direction that lies along another one of length 1."""
    return wide((way * other).flatten(1).sum(1)) * other


def unit(way: Images) -> Images:
    """Return directions of length 1."""
    return way / wide(way.flatten(1).norm(dim=1).clamp_min(1e-30))


def wide(values: PerImage) -> Tensor:
    """Return numbers of images beside these, [B, 1, 1, 1]."""
    return values.view(-1, 1, 1, 1)
