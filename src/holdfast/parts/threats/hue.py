"""Hue: all colours turn round the colour wheel by the same angle."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Draws, Images, Noise
from holdfast.numerics.geometry.colour import chroma_maps
from holdfast.parts.threats.shared.inside import even
from holdfast.runtime.errors import BadValue, Unsupported


@dataclass(frozen=True)
class Hue(Noise):
    """RGB pixels whose chroma (I, Q) is turned by an angle uniform in [-degrees, degrees], clamped to [0, 1].

    Luma stays as it is, except where clamping takes some of it; grey stays grey. Linear in the image and smooth in the
    angle, which the hexagonal hue is not.

    Attributes:
        degrees: the largest angle, in (0, 180].

    Raises:
        HoldfastError: images that do not have three channels.

    Source: the NTSC colour space.

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
        >>> turned = Hue(30).push(red, torch.tensor([[[0.0], [100.0]]]))
        >>> [[round(v, 2) for v in draw.flatten().tolist()] for draw in turned[0]]
        [[1.0, 0.0, 0.0], [0.99, 0.0, 0.66]]
    """

    degrees: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.degrees <= 180:
            raise BadValue(f"hue degrees: expected an angle in (0, 180], got {self.degrees}")

    def numbers(self, x: Images) -> int:
        """Return 1."""
        _check_colours(x)
        return 1

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        _check_colours(x)
        angle = math.radians(self.degrees) * even(z)[..., None, None]
        # A x, the chroma of each pixel, and B x, that turned by 90°; the sum is over
        # input channels; [B, 1, 3, H, W]
        along, across = (torch.einsum("dc,bchw->bdhw", m.to(x), x)[:, None] for m in chroma_maps())
        # x - A x is grey and stays; A x becomes cos(a) A x + sin(a) B x
        return (x[:, None] + (angle.cos() - 1) * along + angle.sin() * across).clamp(0, 1)


def _check_colours(x: Images) -> None:
    if x.shape[1] != 3:
        raise Unsupported(
            f"hue: expected images with 3 channels, got {x.shape[1]}; grey images have no hue: leave this noise out"
        )
