"""Rotation: the image turns about its centre."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Draws, Images, Noise
from holdfast.parts.threats.shared.inside import even
from holdfast.parts.threats.shared.warp import warp
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Rotation(Noise):
    """x turned about its centre by an angle uniform in [-degrees, degrees], anticlockwise where positive.

    Bilinear; outside the image its edge pixels go on.

    Attributes:
        degrees: the largest angle, in (0, 180].

    Source: Engstrom et al. (2019); the functional noises of Wang et al. (2025).

    Example:
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> draws = Rotation(15).push(x, torch.zeros(1, 3, Rotation(15).numbers(x)))
        >>> draws.shape, bool((draws == 0.5).all())
        (torch.Size([1, 3, 1, 2, 2]), True)
    """

    degrees: float = 15.0

    def __post_init__(self) -> None:
        if not 0 < self.degrees <= 180:
            raise BadValue(f"rotation degrees: expected an angle in (0, 180], got {self.degrees}")

    def numbers(self, x: Images) -> int:
        """Return 1."""
        return 1

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        angle = math.radians(self.degrees) * even(z)[..., 0]
        cos, sin = angle.cos(), angle.sin()
        # Where each place is seen, which is the inverse turn, on (row, column): [B, S, 2, 2]
        turn = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        return warp(x, turn, turn.new_zeros(*angle.shape, 2))
