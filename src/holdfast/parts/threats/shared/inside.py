"""Distributions inside a ball, as functions of standard normal numbers: pixel by pixel, or a direction and a length."""

from collections.abc import Callable
from functools import singledispatch

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Draws, Images
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import Unsupported

Numbers = Float[Tensor, "batch draws numbers"]
Quantile = Callable[[Tensor], Tensor]
"""Takes standard normal numbers to values of a distribution, one by one; zero to the median."""


@singledispatch
def spread(ball: Ball, z: Numbers, pixel: Quantile, length: Quantile) -> Numbers:
    """Return perturbations [B, S, d] inside the ball, for numbers of which there are `count(ball, d)`.

    Args:
        ball: where they lie.
        z: standard normal numbers, [B, S, numbers].
        pixel: numbers -> shares of the radius in [-1, 1], where pixels are independent.
        length: numbers -> shares of the radius in [0, 1], where the direction is uniform.

    Raises:
        HoldfastError: a ball in which the distribution is not known.
    """
    raise _unknown(ball)


@spread.register
def _(ball: Linf, z: Tensor, pixel: Quantile, length: Quantile) -> Tensor:
    return _require_kind(ball, Linf).radius * pixel(z)


@spread.register
def _(ball: L2, z: Tensor, pixel: Quantile, length: Quantile) -> Tensor:
    # All numbers but one give the direction, the last one the length, [B, S, 1]
    direction, last = z[..., :-1], z[..., -1:]
    norm = direction.square().sum(-1, keepdim=True).clamp_min(1e-30).sqrt()  # no numbers, no direction: the centre
    return _require_kind(ball, L2).radius * length(last) * direction / norm


@singledispatch
def count(ball: Ball, pixels: int) -> int:
    """Number of numbers that a perturbation of so many pixels takes.

    Raises:
        HoldfastError: a ball in which the distribution is not known.
    """
    raise _unknown(ball)


@count.register
def _(ball: Linf, pixels: int) -> int:
    _require_kind(ball, Linf)
    return pixels


@count.register
def _(ball: L2, pixels: int) -> int:
    _require_kind(ball, L2)
    return pixels + 1


def _require_kind(ball: Ball, kind: type[Ball]) -> Ball:
    """Refuse a ball that inherits from one in which the distribution is known: it may hold less."""
    if type(ball) is not kind:
        raise _unknown(ball)
    return ball


def _unknown(ball: Ball) -> Unsupported:
    return Unsupported(
        f"noise in a ball: expected linf or l2, got {type(ball).__name__}, in which the distribution is not known; "
        "register it with holdfast.parts.threats.shared.inside.spread and count"
    )


def perturb(x: Images, delta: Numbers) -> Draws:
    """Return x + δ clamped to [0, 1], [B, S, C, H, W]; clamping moves towards x, so nothing leaves the ball."""
    return (x[:, None] + delta.reshape(*delta.shape[:2], *x.shape[1:]).to(x)).clamp(0, 1)


def even(z: Tensor) -> Tensor:
    """Return 2Φ(z) - 1 = erf(z / √2), uniform in [-1, 1]."""
    return torch.erf(z / 2**0.5)


def odd(z: Tensor, half: Callable[[Tensor], Tensor]) -> Tensor:
    """Return half(-|z|) with the sign of z: tails are computed where floats are dense, and zero keeps its gradient.

    Args:
        z: numbers.
        half: what a distribution symmetric about 0 gives for numbers up to 0, as its magnitude.
    """
    upper = z > 0
    # Not -z.abs(), whose gradient at 0 is 0: a search that begins there would never move
    magnitude = half(torch.where(upper, -z, z))
    return torch.where(upper, magnitude, -magnitude)
