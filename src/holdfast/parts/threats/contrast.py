"""Contrast: all pixels move towards the image's mean, or away from it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Draws, Images, Noise
from holdfast.parts.threats.shared.inside import even
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Contrast(Noise):
    """x + c (x - m), clamped to [0, 1], with m the mean of all its values and c uniform in [-factor, factor].

    Attributes:
        factor: the largest c, in (0, 1]; with 1, contrasts reach from nothing to twice the image's.

    Source: Hendrycks & Dietterich (2019) for contrast as a corruption; here with a random amount.

    Example:
        >>> x, z = torch.tensor([[[[0.25, 0.75]]]]), torch.tensor([[[0.0], [100.0]]])
        >>> [[round(v, 3) for v in draw.flatten().tolist()] for draw in Contrast(0.3).push(x, z)[0]]
        [[0.25, 0.75], [0.175, 0.825]]
    """

    factor: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.factor <= 1:
            raise BadValue(f"contrast factor: expected a share of the contrast, in (0, 1], got {self.factor}")

    def numbers(self, x: Images) -> int:
        """Return 1."""
        return 1

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        # Made once for all draws, [B, C, H, W]; the draws below differ
        # in one factor, [B, S, 1, 1, 1]
        away = x - x.mean((1, 2, 3), keepdim=True)
        return (x[:, None] + self.factor * even(z)[..., None, None] * away[:, None]).clamp(0, 1)
