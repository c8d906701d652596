"""Everyday changes: how far images move that nobody attacks, in the norm of a ball."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Images, Passes, PerImage, Shard
from holdfast.numerics.geometry.colour import lab
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.threats.gaussian import Gaussian
from holdfast.parts.threats.imagenet_c.digital import jpeg_compression
from holdfast.parts.threats.linf import Linf

QUALITY = 90
"""Of JPEG: what cameras and editors write where nobody asks for less."""

SIGMA = 2 / 255
"""Of sensor noise: the shot noise of a bright pixel that gathers 16,000 electrons, √16,000 / 16,000 of full scale."""

NOTICED = 2.3
"""Mean ΔE*ab of a just noticeable difference (Mahy, Van Eycken & Oosterlinck 1994)."""

STEPS, PIXELS = 6, 4096
"""Steps towards the brightness that is just noticed, and pixels of an image, about, that are looked at for it."""

NAMES: Mapping[str, str] = MappingProxyType({"jpeg": f"JPEG {QUALITY}", "noise": "sensor noise", "visible": "visible"})
"""What each change is called where it marks a place."""


@dataclass(frozen=True)
class EverydayChanges(OfAnyRadius, OfFirst):
    """||x' - x|| for what befalls images without an adversary, in pixels: `jpeg`, `noise`, `visible`, each [M].

    `jpeg`: saved as JPEG of quality 90. `noise`: Gaussian of σ = 2/255 in every pixel, inside [0, 1]. `visible`: dark
    pixels brighter and bright ones darker, all by one amount that is just noticed, a mean ΔE*ab of 2.3. That was
    measured on even patches: finer patterns are noticed later, in ℓ2 concentrated ones earlier. NaN where images are
    neither grey nor of three colours.

    Attributes:
        ball: the norm; its radius is not read.

    Source: for what is noticed, Mahy et al. (1994).
    """

    ball: Ball = Linf()

    @property
    @override
    def title(self) -> str:
        return f"sizes of everyday changes, {self.ball.norm}"

    @property
    def passes(self) -> Passes:
        """None: only images are looked at."""
        return Passes()

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Measure the images of one shard."""
        x = shard.x
        noisy = Gaussian(SIGMA).sample(x, shard.rng.child("everyday changes"))
        unknown = x.new_full((len(x),), torch.nan)
        picture = x.shape[1] in (1, 3)
        sizes = {
            "jpeg": self.ball.size(jpeg_compression(x, shard.rng, (QUALITY,)) - x) if picture else unknown,
            "noise": self.ball.size(noisy - x),
            # In the ball's own norm: a shift of every pixel by one amount
            "visible": self.ball.size(_find_noticeable_shift(x).view(-1, 1, 1, 1) * torch.ones_like(x))
            if picture
            else unknown,
        }
        return {name: size.double().cpu() for name, size in sizes.items()}


def _find_noticeable_shift(x: Images) -> PerImage:
    """Return by how much all pixels must move, away from the nearer end of [0, 1], until that is just noticed."""
    # Some thousand pixels tell the mean of an image well enough
    stride = max(1, math.isqrt(x.shape[2] * x.shape[3] // PIXELS))
    x = x[:, :, ::stride, ::stride]
    # Towards the middle of [0, 1], where clipping takes nothing of the shift
    before, inwards = lab(x), torch.where(x > 0.5, -1.0, 1.0)
    amount = x.new_full((len(x),), 0.02)
    for _ in range(STEPS):  # ΔE grows almost in proportion: each step mends what that leaves
        after = lab((x + amount.view(-1, 1, 1, 1) * inwards).clamp(0, 1))
        # ΔE*ab is the Euclidean distance in CIELAB; its mean over pixels
        noticed = (after - before).norm(dim=1).flatten(1).mean(1)
        amount = (amount * NOTICED / noticed).clamp_max(0.5)
    return amount
