"""Laplace noise that stays in a ball."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.special import ndtr
from typing_extensions import override

from holdfast.core import Ball, Draws, Images, Noise
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.shared.inside import count, odd, perturb, spread
from holdfast.parts.threats.shared.length import to_truncated_length
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Laplace(Noise):
    """x + δ with δ of a density that falls exponentially with its size, given that δ lies in a ball; clamped to [0, 1].

    ℓ∞: density ∝ exp(-|δ| / b) with b = scale · ε, pixel by pixel, |δ| = -b log(v + (1 - v) exp(-1 / scale)) with
    v = P(|Z| > |z|). ℓ2: its radial analogue, density ∝ exp(-||δ||_2 / b) with b = scale · ε / d, so that lengths of
    many pixels gather about scale · ε.

    Attributes:
        ball: where δ lies, ε in pixels of a [0, 1] image.
        scale: b as a share of ε, positive; d b for ℓ2.

    Source: the Laplace noise of probabilistic robustness in Wang et al. (2025).

    Example:
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> noise = Laplace()
        >>> disturbed = noise.push(x, torch.randn(1, 100, noise.numbers(x), generator=torch.Generator().manual_seed(0)))
        >>> bool(((disturbed - x).abs() <= 0.05 + 1e-6).all())
        True
    """

    ball: Ball = Linf(0.05)  # pyright: ignore[reportIncompatibleVariableOverride]
    scale: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise BadValue(f"laplace scale: expected a positive share of the radius, got {self.scale}")

    def numbers(self, x: Images) -> int:
        """Return d for ℓ∞, d + 1 for ℓ2."""
        return count(self.ball, x[0].numel())

    @override
    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        pixels = x[0].numel()
        return perturb(
            x, spread(self.ball, z, self._pixel, lambda last: to_truncated_length(last, "laplace", pixels, self.scale))
        )

    def _pixel(self, z: Tensor) -> Tensor:
        edge = math.exp(-1 / self.scale)

        def half(low: Tensor) -> Tensor:
            # v = P(|Z| > |z|); given the ball, the tail of |δ| runs from 1 at 0 down
            # to exp(-1 / scale) at its edge
            beyond = 2 * ndtr(low)
            left = beyond + (1 - beyond) * edge
            # The logarithm of a tail that has underflowed would be infinite;
            # rounding alone exceeds the radius
            return (-self.scale * left.clamp_min(torch.finfo(low.dtype).tiny).log()).clamp_max(1)

        return odd(z, half)
