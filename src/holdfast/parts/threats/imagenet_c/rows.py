"""Linear combinations of an image's rows: what blurs and zooms are made of."""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images


def combine(
    x: Images, index: Int[Tensor, "out taps"], weights: Float[Tensor, "out taps"]
) -> Float[Tensor, "batch channel out width"]:
    """Return the images whose row i is Σ_t weights[i, t] · x's row index[i, t].

    A bag of embeddings keeps the sum in registers, where a sum of shifted images would pass through memory at each tap;
    and each row is summed in the same order whatever the batch.
    """
    batch, channels, height, width = x.shape
    # All images and channels below each other, as one table of rows: where each begins
    first = torch.arange(0, batch * channels * height, height)
    # One bag for each row of the result, [B · C · out, taps]
    bags = (first[:, None, None] + index).flatten(0, 1).to(x.device)
    taken = weights.to(x).repeat(batch * channels, 1)
    rows = F.embedding_bag(bags, x.reshape(-1, width), mode="sum", per_sample_weights=taken)
    return rows.view(batch, channels, -1, width)


def gaussian(x: Images, deviation: float) -> Images:
    """Return the image blurred by a Gaussian cut off at four deviations; beyond its edge the edge goes on."""
    for _ in range(2):  # rows, then columns
        x = combine(x, *_gaussian(x.shape[2], deviation)).transpose(2, 3)
    return x.contiguous()


@lru_cache(64)
def _gaussian(side: int, deviation: float) -> tuple[Int[Tensor, "side taps"], Float[Tensor, "side taps"]]:
    """Rows of an image that each row is a mixture of, and their weights."""
    reach = int(4 * deviation + 0.5)
    offsets = np.arange(-reach, reach + 1)
    shares = np.exp(-0.5 * (offsets / deviation) ** 2)
    # Held at the ends: beyond its edge the edge goes on
    index = (np.arange(side)[:, None] + offsets).clip(0, side - 1)
    # All rows have the same weights: a view, not copies
    return torch.from_numpy(index), torch.from_numpy(shares / shares.sum()).expand(side, -1)
