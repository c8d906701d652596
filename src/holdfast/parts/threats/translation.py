"""Translation: the image moves up or down and sideways."""

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
class Translation(Noise):
    """x moved along both axes by shares of its side uniform in [-share, share]; bilinear, edge pixels repeated outside.

    Attributes:
        share: the largest move, as a share of the height and of the width, in (0, 1].

    Source: Engstrom et al. (2019); the functional noises of Wang et al. (2025).

    Example:
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> draws = Translation(0.1).push(x, torch.zeros(1, 3, Translation(0.1).numbers(x)))
        >>> draws.shape, bool((draws == 0.5).all())
        (torch.Size([1, 3, 1, 2, 2]), True)
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadValue(f"translation share: expected a share of the side, in (0, 1], got {self.share}")

    def numbers(self, x: Images) -> int:
        """Return 2: down, and to the right."""
        return 2

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        side = torch.tensor(x.shape[2:], dtype=x.dtype, device=x.device)
        # The window moves up where the image moves down
        return warp(x, torch.eye(2).to(x).expand(*z.shape[:2], 2, 2), -self.share * side * even(z))
