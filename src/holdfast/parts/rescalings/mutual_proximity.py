"""Mutual proximity: how likely a random image is farther from either side than they are from each other."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.rescaling import Local, Rescaling


@dataclass(frozen=True)
class MutualProximity(Rescaling):
    """d' = 1 - P[X > d] P[Y > d], X and Y the distances of others from q and from z: independent and normal.

    Source: Schnitzer et al. (2012), with independent normal distances.

    Example:
        >>> proximity = MutualProximity()
        >>> around = proximity.local(torch.tensor([1.0, 2.0, 3.0]))
        >>> proximity(torch.tensor(2.0), around, around).item()  # half of the others are farther from each
        0.75
    """

    title = "mutual proximity"
    near = False

    def local(self, distances: Float[Tensor, "*items others"]) -> Local:
        """Return mean and standard deviation of the distances."""
        # A spread of zero, of copies alone, would divide by nothing
        return torch.stack([distances.mean(-1), distances.std(-1, correction=0).clamp_min(1e-12)], -1)

    def __call__(self, apart: Float[Tensor, "*pairs"], query: Local, item: Local) -> Float[Tensor, "*pairs"]:
        """Return d'."""
        # Of each side, the chance that a random image is farther away
        farther = [torch.special.ndtr((side[..., 0] - apart) / side[..., 1]) for side in (query, item)]
        return 1 - farther[0] * farther[1]
