"""Uniform noise: every disturbance of a ball is as likely as any other."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.special import log_ndtr
from typing_extensions import override

from holdfast.core import Ball, Draws, Images, Noise
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.inside import count, even, perturb, spread


@dataclass(frozen=True)
class Uniform(Noise):
    """x + δ with δ uniform in a ball, clamped to [0, 1].

    ℓ∞: δ = ε (2Φ(z) - 1), pixel by pixel; ℓ2: a uniform direction, and the length ε Φ(z)^(1/d).

    Attributes:
        ball: where δ lies, ε in pixels of a [0, 1] image.

    Source: the uniform baseline of probabilistic robustness in Wang et al. (2025), there with 100 draws for each image.

    Example:
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> noise = Uniform()
        >>> disturbed = noise.push(x, torch.randn(1, 100, noise.numbers(x), generator=torch.Generator().manual_seed(0)))
        >>> bool(((disturbed - x).abs() <= 0.05 + 1e-6).all())
        True
    """

    ball: Ball = Linf(0.05)  # pyright: ignore[reportIncompatibleVariableOverride]

    def numbers(self, x: Images) -> int:
        """Return d for ℓ∞, d + 1 for ℓ2."""
        return count(self.ball, x[0].numel())

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        pixels = x[0].numel()
        # Φ(z)^(1/d) by its logarithm, which does not underflow where Φ(z) does
        return perturb(x, spread(self.ball, z, even, lambda last: (log_ndtr(last) / pixels).exp()))
