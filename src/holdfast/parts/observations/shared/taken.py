"""Which images the failing ones of a shard are taken for."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.core import Failure, Reps, Shard


def find_confusions(
    failure: Failure, shard: Shard, reps: Reps, failed: Bool[Tensor, "images"]
) -> Int[Tensor, "images"]:
    """Return the position of the image that each failing one is taken for; -1 for all others, and where none is known.

    Args:
        failure: what failed.
        shard: the images.
        reps: representations of their disturbed versions, in the shard's order.
        failed: which of them fail.
    """
    positions = failure.identify(shard, reps)
    if positions is None:  # such as a representation that moved far, towards no image in particular
        return torch.full(failed.shape, -1)
    return positions.masked_fill(~failed.cpu(), -1)
