"""The corruptions of imagecorruptions that draw no numbers: the same images, level by level."""

import warnings
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.libraries.work import Work
from holdfast.core import Rng
from holdfast.parts.threats.imagenet_c import ImagenetC

BATCH, SIDE, SEVERITY = 8, 224, 3
NAMES = ("defocus_blur", "zoom_blur", "brightness", "contrast", "saturate", "pixelate", "jpeg_compression")


def corruption(name: str) -> Work:
    """Return one corruption of some images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from imagecorruptions import corrupt

    side = np.linspace(0, 1, SIDE)
    noise = np.random.default_rng(0).random((BATCH, SIDE, SIDE, 3))
    waves = 0.5 + 0.3 * np.sin(9 * side)[None, :, None, None] * np.cos(7 * side)[None, None, :, None]
    pictures = (255 * (0.7 * waves + 0.3 * noise)).astype(np.uint8)
    x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    threat, rng = ImagenetC(name, SEVERITY, "imagenet"), Rng(0, ids=tuple(str(number) for number in range(BATCH)))

    def ours() -> Tensor:
        return (255 * threat.sample(x, rng)).round()

    def theirs() -> Tensor:
        moved = np.stack([corrupt(picture, severity=SEVERITY, corruption_name=name) for picture in pictures])
        return torch.from_numpy(moved).permute(0, 3, 1, 2).float()

    what = f"{name}, severity {SEVERITY}, {BATCH} images of {SIDE} x {SIDE}"
    far = "largest difference of a pixel"
    return Work("imagecorruptions", what, ours, theirs, lambda a, b: float((a - b).abs().max()), far, "levels", 1.0)


WORKS = {f"imagecorruptions, {name}": partial(corruption, name) for name in NAMES}
