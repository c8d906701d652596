"""What stand-ins for observed encoders say of searches where a test makes none."""

import torch
from torch import Tensor

from holdfast.core import Ball, Failure, Shard


class Unsearched:
    """A subject in which nothing was searched beside what a measure reads itself."""

    attacked: int

    def collect_points(self, ball: Ball) -> list[Tensor]:
        return []

    def broke(self, failure: Failure, ball: Ball) -> Tensor:
        return torch.zeros(self.attacked, dtype=torch.bool)

    def shard(self, count: int) -> Shard:
        raise AssertionError("nothing is bound to a shard")
