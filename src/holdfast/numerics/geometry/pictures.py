"""Images made smaller, for pictures of them."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


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
