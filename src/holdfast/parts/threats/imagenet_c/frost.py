"""Frost on a window: pieces of photographs, or drawn."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images, Rng
from holdfast.parts.threats.imagenet_c.batches import too_small
from holdfast.runtime.doors import open_picture
from holdfast.runtime.errors import Missing

SHEETS = (
    (0.30, 0.58, 0.65, 0.061),
    (0.79, 0.81, 0.84, 0.076),
    (0.79, 0.81, 0.84, 0.076),
    (0.54, 0.60, 0.65, 0.103),
    (0.44, 0.48, 0.53, 0.137),
)
"""Mean red, green and blue and the contrast within 224 pixels of the five photographs that the published code uses."""

SLOPE = 0.9
"""Amplitudes of the photographs fall as frequency to this power, between 3 and 100 periods per 224 pixels."""

DIRECTIONS = 6
"""Ways that needles may lie."""

PATCHES = 10
"""Patches along a side, about."""


def ice(x: Images, rng: Rng) -> Images:
    """Return ice with the colours, contrasts and spectrum of the published photographs, one of their five at random.

    Noise with a falling spectrum, of which each of some directions keeps what is long along it: needles. They lie in
    patches, one where smooth noise of its direction is highest.

    Raises:
        HoldfastError: images of one pixel, on which nothing varies.
    """
    height, width = x.shape[2:]
    if height * width < 2:
        raise too_small("frost", x, 2)
    # Mean colour and contrast of one photograph for each image, [B, 4, 1, 1]
    sheet = x.new_tensor(SHEETS)[(len(SHEETS) * rng.child("sheet").uniform(1)[:, 0]).long()].view(-1, 4, 1, 1)
    # Noise is real, so half of its spectrum tells all of it; one noise for all
    # directions, [B, 1, H, W/2 + 1]
    white = torch.fft.rfft2(rng.child("needles").normal(1, height, width).to(x))
    needles = torch.fft.irfft2(white * _spectra(height, width).to(x), (height, width))
    patches = rng.child("patches").normal(DIRECTIONS, PATCHES, PATCHES).to(x)
    # A factor of 6 makes the softmax sharp: almost everywhere one
    # direction has nearly all the weight
    patches = (6 * F.interpolate(patches, (height, width), mode="bicubic", align_corners=True)).softmax(1)
    field = (patches * needles).sum(1, keepdim=True)
    field = field - field.mean((2, 3), keepdim=True)
    # At the contrast of the photograph, whatever is left of the noise's own
    return (sheet[:, :3] + sheet[:, 3:] * field / field.std((2, 3), keepdim=True)).clamp(0, 1)


@lru_cache(4)
def _spectra(height: int, width: int) -> Float[Tensor, "directions height half"]:
    """Return the amplitudes of needles in each direction, as rfft2 arranges them."""
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = np.inf  # no mean
    angle = np.arctan2(rows, columns)
    # Waves across a needle's direction make it long; cos⁸ falls to a half at 24°
    across = [np.abs(np.cos(angle - math.pi * k / DIRECTIONS)) ** 8 for k in range(DIRECTIONS)]
    return torch.from_numpy(np.stack(across) * frequency**-SLOPE)


def crops(x: Images, rng: Rng, folder: str, scale: float) -> Images:
    """Return, for every image, a random piece of a random photograph, as large as the image.

    Photographs are used at `scale`, bilinearly, or as much larger as it takes to be no smaller than the image.

    Raises:
        HoldfastError: a folder without pictures.
    """
    paths = sorted(path for path in Path(folder).glob("*") if path.suffix.lower() in (".png", ".jpg", ".jpeg"))
    if not paths:
        raise Missing(f"textures of frost: expected a folder with .png or .jpg photographs, found none in {folder}")
    pieces = []
    for number, down, right in rng.child("piece").uniform(3).tolist():
        photograph = _photograph(paths[int(len(paths) * number)], scale, *x.shape[2:])
        # One place more than free rows, each as likely, as u is below 1
        top = int((photograph.shape[1] - x.shape[2] + 1) * down)
        left = int((photograph.shape[2] - x.shape[3] + 1) * right)
        pieces.append(photograph[:, top : top + x.shape[2], left : left + x.shape[3]])
    return torch.stack(pieces).to(x)


@lru_cache(16)
def _photograph(path: Path, scale: float, height: int, width: int) -> Float[Tensor, "3 rows columns"]:
    """Return a photograph at a scale, or as much larger as it takes to be no smaller than so many rows and columns."""
    levels = torch.from_numpy(np.array(open_picture(path).convert("RGB"))).permute(2, 0, 1)
    rows, columns = levels.shape[1:]
    scale = max(scale, height / rows, width / columns)
    # The scale fits the image, but rounding could leave it a pixel short
    sides = [max(round(rows * scale), height), max(round(columns * scale), width)]
    return F.interpolate(levels[None] / 255, sides, mode="bilinear", align_corners=False)[0]
