"""Thumbnails: every image of the population, small, so that images that look alike are quickly known."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from holdfast.core import Passes, Shard
from holdfast.parts.observations.shared.all import OfAll

SIDE = 16
"""Height and width of a thumbnail; images that are smaller stay as they are."""


@dataclass(frozen=True)
class Thumbnails(OfAll):
    """Means over a grid of 16 by 16 cells of every image of the population, as `thumbnails` [N, C · 256] at most."""

    @property
    def passes(self) -> Passes:
        """None: only images are looked at."""
        return Passes()

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Shrink the images of one shard."""
        height, width = (min(SIDE, side) for side in shard.x.shape[2:])
        return {"thumbnails": adaptive_avg_pool2d(shard.x, (height, width)).flatten(1).float().cpu()}
