"""The nearest other image in pixels: what no encoder holds beyond; and how fine the grey levels of images are."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Images, Observation, Passes, PerImage, Shard
from holdfast.core.threat import image_shape
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.observations.thumbnails import Thumbnails
from holdfast.parts.threats.linf import Linf

FINEST = 1 / 255
"""The grey level of a file of 8 bits; no finer one is read from pixels that have been resized."""


@dataclass(frozen=True)
class NearestImage(OfAnyRadius, OfFirst):
    """min_j ||x_j - x|| over other images x_j of the population, as `apart` [M] in pixels, and `level` [M].

    A change by x_j - x makes x_j of x, so every encoder that tells the two apart takes it for that, and r(x) is at most
    ||x_j - x||. This holds for every x_j, so only those whose thumbnails are most alike are looked at in full. Images
    with the same pixels cannot be told apart and do not count; inf where there is no other.

    `level`: the size of a change by one grey level of every pixel that may change, which is the smallest step between
    two values of the image; 1/255 at least.

    Attributes:
        ball: the norm; its radius is not read.
        candidates: how many images are looked at in full, for each.
    """

    ball: Ball = Linf()
    candidates: int = 8

    @property
    @override
    def title(self) -> str:
        return f"nearest other images, {self.ball.norm}"

    @property
    def reads(self) -> tuple[Observation, ...]:
        """Thumbnails of all images."""
        return (Thumbnails(),)

    @property
    def passes(self) -> Passes:
        """None: only images are looked at."""
        return Passes()

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Look at the most similar images of those of one shard."""
        assert shard.read is not None  # of what is observed before
        assert shard.others is not None
        thumbnails, own = shard.read(Thumbnails())["thumbnails"], shard.positions.cpu()
        # [B, N] from differences and not from a matrix product, which would lose the
        # digits that tell near images apart
        alike = torch.cdist(thumbnails[own], thumbnails, compute_mode="donot_use_mm_for_euclid_dist")
        alike[torch.arange(len(own)), own] = torch.inf
        nearest = alike.argsort(dim=1, stable=True)[:, : min(self.candidates, len(thumbnails) - 1)]
        apart = shard.x.new_full((len(own),), torch.inf)
        for positions in nearest.T:
            distance = self.ball.size(shard.others(positions).to(shard.x) - shard.x)
            # The same picture twice has a distance of 0, and sets no limit
            apart = torch.where(distance > 0, torch.minimum(apart, distance), apart)
        return {"apart": apart.double().cpu(), "level": self._levels(shard.x).double().cpu()}

    def _levels(self, x: Images) -> PerImage:
        # Values that differ by less than 1e-5 are one grey level that was rounded on its way
        steps = [image.flatten().mul(1e5).round().unique().diff() / 1e5 for image in x]
        finest = torch.stack([step.min() if len(step) else step.new_tensor(1.0) for step in steps]).clamp_min(FINEST)
        return finest * self.ball.even(image_shape(x))
