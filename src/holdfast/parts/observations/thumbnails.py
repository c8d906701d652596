"""Thumbnails: every image of the population, small, so that images that look alike are quickly known."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from holdfast.core import Observation, Passes, Shard

SIDE = 16
"""Height and width of a thumbnail; images that are smaller stay as they are."""


@dataclass(frozen=True)
class Thumbnails(Observation):
    """Means over a grid of 16 by 16 cells of every image of the population, as `thumbnails` [N, C · 256] at most."""

    def key(self) -> Observation:
        """There is only one way to look at them."""
        return self

    def join(self, twin: Observation) -> Observation:
        """All readers read the same thumbnails."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """All of them."""
        return population

    @property
    def passes(self) -> Passes:
        """None: only images are looked at."""
        return Passes()

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Shrink the images of one shard."""
        height, width = (min(SIDE, side) for side in shard.x.shape[2:])
        return {"thumbnails": adaptive_avg_pool2d(shard.x, (height, width)).flatten(1).float().cpu()}
