"""Brightness: all pixels become lighter or darker by the same amount."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Draws, Images, Noise
from holdfast.parts.threats.shared.inside import even
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Brightness(Noise):
    """x + b, clamped to [0, 1], with b uniform in [-shift, shift].

    Attributes:
        shift: the largest b in pixels of a [0, 1] image, in (0, 1].

    Source: Hendrycks & Dietterich (2019) for brightness as a corruption; here with a random amount.

    Example:
        >>> x, z = torch.tensor([[[[0.25, 0.75]]]]), torch.tensor([[[0.0], [100.0]]])
        >>> [[round(v, 3) for v in draw.flatten().tolist()] for draw in Brightness(0.2).push(x, z)[0]]
        [[0.25, 0.75], [0.45, 0.95]]
    """

    shift: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.shift <= 1:
            raise BadValue(f"brightness shift: expected pixels of a [0, 1] image, in (0, 1], got {self.shift}")

    def numbers(self, x: Images) -> int:
        """Return 1."""
        return 1

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        # One amount for all pixels of a draw: [B, S, 1] -> [B, S, 1, 1, 1]
        return (x[:, None] + self.shift * even(z)[..., None, None]).clamp(0, 1)
