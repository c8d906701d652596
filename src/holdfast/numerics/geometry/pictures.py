"""Images made smaller, and with maps on them, for pictures of them."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

GLOW = (1.0, 0.4, 0.0)
"""The colour of a map, on a grey image."""


def shrunk(
    images: Float[Tensor, "batch channel height width"], side: int
) -> Float[Tensor, "batch channel rows columns"]:
    """Return images whose sides are at most so many pixels; each is the mean of those that it covers.

    Example:
        >>> shrunk(torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]]), side=1).tolist()
        [[[[0.5]]]]
    """
    height, width = images.shape[2:]
    return F.adaptive_avg_pool2d(images, (min(height, side), min(width, side)))


def glowing(
    x: Float[Tensor, "batch channel height width"], maps: Float[Tensor, "batch height width"]
) -> Float[Tensor, "batch 3 height width"]:
    """Return images in grey that glow where their map is high, each map in units of its largest value.

    Example:
        >>> glowing(torch.ones(1, 1, 1, 2), torch.tensor([[[0.0, 5.0]]]))[0, :, 0].tolist()  # white, orange
        [[1.0, 1.0], [1.0, 0.5199999809265137], [1.0, 0.19999998807907104]]
    """
    grey = x.mean(1, keepdim=True)
    # A map of zeros glows nowhere
    share = 0.8 * (maps / maps.amax((1, 2), keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny))[:, None]
    return (1 - share) * grey + share * torch.tensor(GLOW).view(1, 3, 1, 1)
