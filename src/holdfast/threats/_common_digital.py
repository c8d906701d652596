"""Common corruptions: what is done to images by software, and elastic bending."""

from functools import lru_cache
from io import BytesIO

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import HoldfastError, Images, Rng


def brightness(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the image whose value V = max(R, G, B) is V' = min(V + c, 1), with hue and saturation as they were.

    Keeping both means x · V' / V; where V = 0 it means grey. No HSV image is made, and one channel will do.
    """
    (shift,) = constants
    value = x.amax(1, keepdim=True)
    raised = (value + shift).clamp_max(1)
    return torch.where(value > 0, x * (raised / value.clamp_min(1e-12)), raised)


def contrast(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return m + c (x - m) with m the mean of each channel."""
    (factor,) = constants
    mean = x.mean((2, 3), keepdim=True)
    return mean + factor * (x - mean)


def saturate(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return V (1 - S' t) for S' = clamp(c S + d): the image with saturation S' in place of S = (V - min) / V.

    t = (V - x) / (V - min) is what the hue says of each channel, V = max(R, G, B). A pixel without a hue counts as red,
    as it does in the published code.

    Raises:
        HoldfastError: images with one channel.
    """
    if x.shape[1] != 3:
        raise HoldfastError(f"saturate: expected RGB images, got {x.shape[1]} channel; grey images have no saturation")
    factor, offset = constants
    value, least = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    span = value - least
    red = x.new_tensor([0.0, 1.0, 1.0]).view(3, 1, 1)
    hue = torch.where(span > 0, (value - x) / span.clamp_min(1e-12), red)
    saturation = (factor * span / value.clamp_min(1e-12) + offset).clamp(0, 1)
    return value * (1 - saturation * hue)


def pixelate(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the image made smaller, to ⌊c · side⌋, and as large as before, both with a box filter.

    As Pillow does, each of the four passes rounds to 8 bits, rows first: Y = ⌊A ⌊X Bᵀ⌉⌉.

    Raises:
        HoldfastError: images of which no pixel would be left.
    """
    (share,) = constants
    sides = x.shape[2:]
    small = [int(side * share) for side in sides]
    if min(small) < 1:
        raise _too_small("pixelate", x, int(np.ceil(1 / share)))
    levels = (255 * x).round()
    for before, after in ((sides, small), (small, sides)):
        levels = _half_up(levels @ _box(before[1], after[1]).to(x).T)
        levels = _half_up(_box(before[0], after[0]).to(x) @ levels)
    return levels / 255


@lru_cache(16)
def _box(before: int, after: int) -> Float[Tensor, "after before"]:
    """Return the matrix of Pillow's box filter along one side: what it makes of the identity."""
    eye = PIL.Image.fromarray(np.eye(before, dtype=np.float32))
    return torch.from_numpy(np.array(eye.resize((before, after), PIL.Image.Resampling.BOX)))


def _half_up(x: Images) -> Images:
    return torch.floor(x + (0.5 + 1e-3))  # a mean of a few levels that is a half is one in spite of rounding


def jpeg_compression(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return what Pillow reads from the JPEG file of quality c that it writes.

    One image after another, because the file format *is* the codec: libjpeg takes about a millisecond for one of 224
    pixels, less than the cosine transforms of a batch take in torch, and gives the published pixels themselves.
    """
    (quality,) = constants
    levels = (255 * x).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    read = torch.stack([torch.from_numpy(_through_jpeg(image, int(quality))) for image in levels])
    return read.permute(0, 3, 1, 2).to(x) / 255


def _through_jpeg(levels: np.ndarray, quality: int) -> np.ndarray:
    file = BytesIO()
    PIL.Image.fromarray(levels.squeeze(-1) if levels.shape[-1] == 1 else levels).save(file, "JPEG", quality=quality)
    return np.array(PIL.Image.open(file)).reshape(levels.shape)


def elastic_transform(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x bent by a random affine map, then by a smooth random field.

    The affine map takes three corners p of a square around the centre, two thirds of the shorter side s long, to
    p + s c₃ u with u uniform in [-1, 1]². The field is s c₁ times uniform numbers in [-1, 1] blurred with standard
    deviation s c₂ (cut off at three). Both sample bilinearly, as the published code does, but with exact
    coordinates, where its affine map may round them to 1/32 pixel.

    Raises:
        HoldfastError: images without a square around the centre.
    """
    size, blur, affine = (min(x.shape[2:]) * c for c in constants)
    if min(x.shape[2:]) < 3:
        raise _too_small("elastic_transform", x, 3)
    height, width = x.shape[2:]
    square = min(height, width) // 3
    corners = torch.tensor([[1, 1], [1, -1], [-1, -1]]) * square + torch.tensor([width // 2, height // 2])
    before = _homogeneous(corners.double())
    moved = corners + affine * (2 * rng.child("affine").uniform(3, 2).double() - 1)
    back = torch.linalg.solve(_homogeneous(moved), before)[:, :, :2]  # rows: what x, y and 1 give
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    places = torch.stack([columns, rows, torch.ones_like(rows)], -1).double() @ back[:, None]
    last = torch.tensor([width - 1, height - 1])
    seen = F.grid_sample(x, (2 * places / last - 1).to(x), "bilinear", "reflection", align_corners=True)
    if size == 0:
        return seen
    fields = (2 * rng.child("field").uniform(2, height, width) - 1).to(x)
    fields = size * (_blur(height, blur).to(x) @ fields @ _blur(width, blur).to(x).T)
    places = torch.stack([columns, rows], -1).to(x) + fields.permute(0, 2, 3, 1)
    sides = x.new_tensor([width, height])
    return F.grid_sample(seen, (2 * places + 1) / sides - 1, "bilinear", "reflection", align_corners=False)


def _homogeneous(points: Float[Tensor, "*batch 3 2"]) -> Float[Tensor, "*batch 3 3"]:
    return F.pad(points, (0, 1), value=1.0)


@lru_cache(16)
def _blur(side: int, deviation: float) -> Float[Tensor, "side side"]:
    """Return the matrix of a Gaussian blur, cut off at three deviations, along a side that is reflected at its ends."""
    return torch.from_numpy(ndimage.gaussian_filter1d(np.eye(side), deviation, 0, mode="reflect", truncate=3))


def _too_small(corruption: str, x: Images, side: int) -> HoldfastError:
    return HoldfastError(
        f"{corruption}: expected sides of at least {side} pixels, got {x.shape[2]} x {x.shape[3]}; leave it out or use "
        "larger images"
    )
