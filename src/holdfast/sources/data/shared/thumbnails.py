"""Thumbnails: the mean grey of images in each cell of a grid of 16 by 16, by which look-alikes are known."""

import numpy as np
import PIL.Image
from jaxtyping import Float, UInt8
from torch import Tensor

SIDE = 16
"""Height and width of a thumbnail."""

Thumbnail = UInt8[np.ndarray, "256"]


def thumbnail(image: PIL.Image.Image | Tensor) -> Thumbnail:
    """Return the mean grey of the image in each cell of a grid of 16 by 16, in levels of 255.

    Args:
        image: a picture of mode L, RGB or F, or pixels in [0, 1], [C, H, W].
    """
    if isinstance(image, Tensor):
        # The mean over channels first: one plane to shrink
        image = PIL.Image.fromarray(image.mean(0).numpy())
    if image.mode == "F":
        small = np.asarray(image.resize((SIDE, SIDE), PIL.Image.Resampling.BOX)) * 255
    else:
        # The gap lets Pillow shrink a large picture by whole boxes first, which is quick
        small = np.asarray(image.resize((SIDE, SIDE), PIL.Image.Resampling.BOX, reducing_gap=2).convert("L"))
    return small.round().clip(0, 255).astype(np.uint8).reshape(-1)


def thumbnails(pixels: Float[Tensor, "n channels height width"]) -> UInt8[np.ndarray, "n 256"]:
    """Return the thumbnails of images of one shape, equal to the bit to those of one after the other.

    Pillow shrinks them side by side as one picture: the cells are 16 to an image, so that none reaches into the next,
    and multiples of 1/16 are exact. Images higher than wide go one by one, whose columns Pillow may shrink before rows.

    Args:
        pixels: in [0, 1].

    Example:
        >>> thumbnails(torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 8, 8))[:, :3].tolist()
        [[0, 0, 0], [255, 255, 255]]
    """
    n, _, height, width = pixels.shape
    if height > width:
        return np.stack([thumbnail(image) for image in pixels])
    # [H, N · W]: images side by side
    row = pixels.mean(1).transpose(0, 1).reshape(height, n * width)
    small = np.asarray(PIL.Image.fromarray(row.numpy()).resize((n * SIDE, SIDE), PIL.Image.Resampling.BOX)) * 255
    levels = small.round().clip(0, 255).astype(np.uint8)
    # [16, N, 16] to [N, 16 · 16]
    return levels.reshape(SIDE, n, SIDE).transpose(1, 0, 2).reshape(n, SIDE * SIDE)
