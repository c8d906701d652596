"""Gaussian noise that stays in a ball."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import ndtr, ndtri
from typing_extensions import override

from holdfast.core import Ball, Draws, Images, Noise
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.inside import count, odd, perturb, spread
from holdfast.parts.threats.shared.length import to_truncated_length
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class TruncatedGaussian(Noise):
    """x + δ with δ ~ N(0, σ² I) given that δ lies in a ball, clamped to [0, 1].

    ℓ∞: σ = scale · ε, pixel by pixel, δ = σ Φ⁻¹(½ + (Φ(z) - ½) (2Φ(1/scale) - 1)). ℓ2: σ = scale · ε / √d, so that
    lengths of many pixels gather about scale · ε (at the sphere from scale 1 on): a uniform direction and a length.

    Attributes:
        ball: where δ lies, ε in pixels of a [0, 1] image.
        scale: σ as a share of ε, positive; of the length for ℓ2.
        clamped: move what falls outside to the ball's nearest point instead, which puts a positive share of all pixels
            on its edge; with scale 1 this is the authors' noise for ℓ∞.

    Source: the Gaussian baseline of probabilistic robustness in Wang et al. (2025).

    Example:
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> noise = TruncatedGaussian()
        >>> disturbed = noise.push(x, torch.randn(1, 100, noise.numbers(x), generator=torch.Generator().manual_seed(0)))
        >>> bool(((disturbed - x).abs() <= 0.05 + 1e-6).all())
        True
    """

    ball: Ball = Linf(0.05)  # pyright: ignore[reportIncompatibleVariableOverride]
    scale: float = 0.5
    clamped: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise BadValue(f"truncated_gaussian scale: expected a positive share of the radius, got {self.scale}")

    def numbers(self, x: Images) -> int:
        """Return d for ℓ∞ and where clamped, d + 1 for ℓ2."""
        return x[0].numel() if self.clamped else count(self.ball, x[0].numel())

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        if not self.clamped:
            return perturb(x, spread(self.ball, z, self._pixel, self._length(x[0].numel())))
        # An image of ones has the size √d in ℓ2 and 1 in ℓ∞: σ = scale · ε / √d, or scale · ε
        sigma = self.scale * self.ball.radius / float(self.ball.size(torch.ones_like(x[:1])))
        delta = sigma * z.reshape(-1, *x.shape[1:])
        return perturb(x, self.ball.project(delta).reshape(z.shape))

    def _pixel(self, z: Tensor) -> Tensor:
        """Return σ/ε Φ⁻¹ of the upper tail: what lies beyond the ball, and of the rest what z leaves."""
        beyond = math.erfc(1 / self.scale / 2**0.5)

        def half(low: Tensor) -> Tensor:
            # The tail P(δ/σ > t) without the truncation, of the t that z stands for: what lies
            # beyond the ball on this side, and the share of the rest that z leaves
            tail = beyond / 2 + (1 - beyond) * ndtr(low)
            # A tail that has underflowed has no quantile; rounding alone exceeds the radius
            return (-self.scale * ndtri(tail.clamp_min(torch.finfo(low.dtype).tiny))).clamp_max(1)

        return odd(z, half)

    def _length(self, pixels: int) -> Callable[[Tensor], Tensor]:
        return lambda last: to_truncated_length(last, "gaussian", pixels, self.scale)
