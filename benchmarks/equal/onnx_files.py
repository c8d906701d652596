"""What ONNX files give through Holdfast, and through whoever else computes what they mean."""

from pathlib import Path

import torch
from torch import Tensor

from benchmarks.equal.family import Case
from holdfast.core import HoldfastError
from holdfast.sources.encoders import open_encoder
from holdfast.sources.onnx.compare import distance

PLACE, HALF_PLACE = 2.0**-23, 2.0**-10
"""Share of a number that the last place of float32 is at most, and that of float16."""

UNIT = "last places of the largest number"
LIMIT = 200.0

MEAN, STD = 0.45, 0.22
"""By which files of networks are normalised."""


def pictures(count: int, shape: tuple[int, int, int]) -> Tensor:
    """Return some images, [count, C, H, W] in [0, 1]."""
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))


def normalised(x: Tensor) -> Tensor:
    """Return images as files of networks take them."""
    return (x - MEAN) / STD


def case(name: str, path: Path, x: Tensor, theirs: Tensor, *, plain: bool = False, place: float = PLACE) -> Case:
    """Return how far a file that is opened is from what it means.

    Args:
        name: of the comparison.
        path: of the file.
        x: images in [0, 1].
        theirs: what the file gives for them, normalised, [B, ...].
        plain: whether it takes them as they are.
        place: share of a number that a last place is.
    """
    how = "mean=0&std=1" if plain else f"mean={MEAN}&std={STD}"
    pool = "&pool=flatten" if theirs.ndim > 2 else ""
    try:
        encoder = open_encoder(f"onnx:{path}?{how}{pool}")
    except HoldfastError as error:
        return Case(name, None, str(error).replace(str(path), "FILE"))
    with torch.no_grad():
        return Case(name, distance(encoder(x), theirs.flatten(1)) / place)
