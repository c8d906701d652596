"""Two Gaussian classes of images whose best classifiers are known exactly: labelled images with a known truth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import PIL.Image
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import ImageSource, Rng
from holdfast.core.data_source import DataSource
from holdfast.core.source_spec import Options, finish, sides, take
from holdfast.numerics.gaussian_classes.conditional import ConditionalGaussian, ones
from holdfast.numerics.gaussian_classes.covariance import isotropic
from holdfast.runtime.checked import integer, number
from holdfast.runtime.errors import BadValue

_PICTURE = (256, 256)


@dataclass(frozen=True)
class GaussianSource(DataSource):
    """Images that are drawn of two Gaussian classes."""

    about = "two Gaussian classes, drawn; gaussian?shape=3x32x32&s=1&share=.5&scale=.1&count=64&draw=0"
    bare = True

    def open(self, name: str, options: Options) -> "Gaussian":
        """Open `gaussian?shape=3x32x32`; without a shape, pictures."""
        if name:
            raise BadValue(f"expected gaussian or gaussian?shape=3x32x32, got gaussian:{name}")
        shape, s = take(options, "shape", sides, None), take(options, "s", number, 1.0)
        share, scale = take(options, "share", number, 0.5), take(options, "scale", number, 0.1)
        count, draw = take(options, "count", integer, 64), take(options, "draw", integer, 0)
        finish(options)
        return Gaussian(shape, s, share, scale, count, draw)


class Gaussian(ImageSource):
    """Images of two Gaussian classes, 0.5 + scale (±s u + n) clamped to [0, 1], with u = 1/√d: a problem to be known.

    Without a shape each is an RGB picture of 256x256, from which any encoder's usual geometry makes its input; resizing
    averages pixels, so s then holds for the picture only.

    Args:
        shape: (channels, height, width), or (d,) for [1, d, 1]; None for pictures.
        s: half the distance of the classes in units of the noise; Φ(s) is the best accuracy.
        share: of class 1.
        scale: standard deviation of the noise in pixels of a [0, 1] image.
        count: how many images.
        seed: which.

    Raises:
        HoldfastError: another number of axes, no images, a share outside (0, 1), or s or scale that are not positive.
    """

    classes = ("minus", "plus")
    concurrent = True

    def __init__(
        self,
        shape: tuple[int, ...] | None = None,
        s: float = 1.0,
        share: float = 0.5,
        scale: float = 0.1,
        count: int = 64,
        seed: int = 0,
    ):
        if shape is not None and (len(shape) not in (1, 3) or min(shape) < 1):
            raise BadValue(
                f"gaussian: expected a shape such as 3x32x32, or 16 for 16 numbers, got {'x'.join(map(str, shape))}"
            )
        if count < 1 or not 0 < share < 1:
            raise BadValue(f"gaussian: expected count >= 1 and 0 < share < 1, got {count} and {share}")
        self.sized = shape is not None
        self._shape = (3, *_PICTURE) if shape is None else shape if len(shape) == 3 else (1, *shape, 1)
        pixels = math.prod(self._shape)
        # Means ±s u with u = 1/√d in every pixel, and equal noise in all directions
        self.model = ConditionalGaussian(self._shape, ones(pixels), s, isotropic(pixels), share, scale, clamp=True)
        # Another shape is another problem, with numbers of its own
        self._count, self._rng = count, Rng(seed, ("gaussian", *map(str, self._shape)))

    def __len__(self) -> int:
        return self._count

    def __str__(self) -> str:
        shape = "x".join(map(str, self._shape)) if self.sized else "pictures"
        return f"Gaussian noise in two classes ({shape}): {len(self)} images"

    def id(self, index: int) -> str:
        """Return for example "gaussian-00012"."""
        return f"gaussian-{index:05d}"

    def load(self, index: int) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
        """Return the pixels, or without a shape the picture, of 256 levels."""
        # -1 or +1, the side of the mean
        signs = torch.tensor([2.0 * self.label(index) - 1])
        pixels = self.model.draw(signs, self._rng.child(self.id(index)).numpy())[0]
        if self.sized:
            return pixels
        # Rounded, for to(uint8) would cut off; [C, H, W] becomes the [H, W, C] of Pillow
        return PIL.Image.fromarray(pixels.mul(255).round_().to(torch.uint8).permute(1, 2, 0).contiguous().numpy())

    def files(self, indices: Sequence[int]) -> tuple[Path, ...]:
        """Return none: images are drawn."""
        return ()

    def label(self, index: int) -> int:
        """Return 1 for the brighter class, 0 for the darker."""
        # By the image's own number, so that the share holds for any count
        return int(self._rng.at([self.id(index)]).child("class").uniform(1).item() < self.model.share)
