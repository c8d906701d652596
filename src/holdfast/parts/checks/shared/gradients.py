"""Whether gradients say what an encoder does inside a ball: what a step along them changes, and what they leave out."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Encoder, Images, Passes, PerImage, Reps, Rng

POINTS = 3
"""Points of a path at which its gradient is taken."""

DIRECTIONS = 3
"""Random projections of the representation, whose gradients say together which pixels count."""

IGNORED = 0.002
"""Share of what gradients foretell, in squares, that the pixels which they leave out make up together at most."""


OF_GRADIENT = Passes(1, 1)
"""Passes of `take_gradient` on an image."""

OF_PROMISE = Passes(2 + POINTS, POINTS)
"""Passes of `compare_with_gradient`."""

OF_UNSEEN = Passes(5, 0) + OF_GRADIENT * DIRECTIONS
"""Passes of `measure_unseen`."""


@dataclass(frozen=True)
class Gradient:
    """∇⟨v, f⟩ at some images for one random v each.

    Attributes:
        at: the images, [B, C, H, W].
        direction: v, [B, D].
        values: the gradient, [B, C, H, W].
    """

    at: Images
    direction: Reps
    values: Images


def take_gradient(encoder: Encoder, at: Images, rng: Rng) -> Gradient | None:
    """Return the gradient of a random projection of f; None where nothing depends on the pixels.

    A projection is used because sums of normalised outputs have no gradient.
    """
    points = at.detach().requires_grad_()
    reps = encoder(points)
    if not reps.requires_grad:
        return None
    direction = rng.normal(reps.shape[1]).to(reps)
    return Gradient(at, direction, _gradient(reps, direction, points))


def compare_with_gradient(encoder: Encoder, start: Images, end: Images, direction: Reps | None = None) -> PerImage:
    """Return by how much the way between two images misses the change that gradients on it promise.

    |A - P| / max(|A|, |P|), where A = ⟨v, f(y') - f(y)⟩ is what changes from y to y', and P = ∫ ∇⟨v, f⟩ · dx, by Gauss
    and Legendre, is what it must change if the gradient is that of f, however curved f is. 0: the promise is kept; 1:
    nothing happens, or something unforeseen; 2: the opposite. NaN where neither moves.

    A way along the gradient changes far more than what rounding inside the encoder does, however short it is; only a
    way that the gradient has not chosen tells that it is blurred, or that of other pixels.

    Args:
        encoder: f.
        start: y, [B, C, H, W].
        end: y', [B, C, H, W].
        direction: v, [B, D]; None: that of the change itself.

    Source: the fundamental theorem of calculus along a path; "Obfuscated gradients give a false sense of security"
        (Athalye et al. 2018) has the ways in which defences break the promise.

    Example:
        >>> honest, black = Encoder(torch.nn.Flatten(), mean=0, std=1), torch.zeros(1, 1, 2, 2)
        >>> compare_with_gradient(honest, black, black + 0.1).round(decimals=3).tolist()
        [0.0]
    """
    # passes without gradients, as numbers are made of them: one with gradients may compute something else
    with torch.no_grad():
        change = encoder(end).double() - encoder(start).double()
    v = change if direction is None else direction.double()
    # ⟨v, change⟩ of each image, [B], and the integral of the gradient along the way
    actual, promised = (change * v).sum(1), torch.zeros_like(change[:, 0])
    # From [-1, 1] to [0, 1]: three points integrate polynomials up to degree 5 exactly
    places, weights = np.polynomial.legendre.leggauss(POINTS)
    for place, weight in zip((1 + places) / 2, weights / 2, strict=True):
        point = (start + float(place) * (end - start)).detach().requires_grad_()
        slope = _gradient(encoder(point).double(), v, point)
        promised += float(weight) * (slope.double() * (end - start)).flatten(1).sum(1)
    # 0 / 0 is NaN on purpose: nothing was promised and nothing happened
    return (actual - promised).abs() / torch.maximum(actual.abs(), promised.abs())


def measure_unseen(encoder: Encoder, x: Images, ball: Ball, rng: Rng) -> PerImage:
    """Return which share of what a random move in the ball changes is made by pixels that the gradient leaves out.

    From y to y', both random points of the ball, gradients at y foretell the share g_i² (y'_i - y_i)² of each pixel,
    with the mean g² of several random projections of f. S are the pixels with the smallest shares, which make up 0.2 %
    together. What S changes, Δ = f(y with S moved) - f(y), and Δ' likewise from another point outside S, give
    ⟨Δ, Δ'⟩ / ‖f(y') - f(y)‖²: what rounding inside the encoder adds differs in both and cancels. A share of percents
    instead says that f saturates, rounds, or keeps the gradient of some pixels back: searches do not move these.

    Args:
        encoder: f.
        x: clean images, [B, C, H, W].
        ball: around x.
        rng: of each image's points.

    Returns:
        The share, in [-1, 1], [B]; NaN where nothing changes at all.
    """
    start, end, other = (ball.sample(x, rng.child(name)) for name in ("start", "end", "other"))
    foretold = torch.zeros_like(x, dtype=torch.float64)
    for number in range(DIRECTIONS):
        gradient = take_gradient(encoder, start, rng.child("direction", number))
        slope = torch.zeros_like(foretold) if gradient is None else gradient.values.double().square()
        # Each projection counts alike, whatever its length
        foretold += slope / slope.flatten(1).sum(1).clamp_min(torch.finfo(slope.dtype).tiny).view(-1, 1, 1, 1)
    shares = (foretold * (end - start).double().square()).flatten(1)
    shares /= shares.sum(1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
    # S: the pixels of the smallest shares, as many as make up IGNORED together
    smallest, order = shares.sort(dim=1)
    outside = torch.zeros_like(shares, dtype=torch.bool).scatter_(1, order, smallest.cumsum(1) <= IGNORED).view_as(x)
    with torch.no_grad():
        first, changed, *again = (
            encoder(image).double()
            for image in (
                start, end, torch.where(outside, end, start),
                torch.where(outside, start, other), torch.where(outside, end, other),
            )
        )  # fmt: skip
    # y with S moved; another point with S as in y; and that point with S moved
    moved, before, after = again
    # Two estimates of what S changes, whose rounding differs: their product has no bias from it
    shared: Float[Tensor, "batch"] = ((moved - first) * (after - before)).sum(1)
    return (shared / (changed - first).square().sum(1)).clamp(-1, 1)


def _gradient(reps: Reps, direction: Reps, points: Images) -> Images:
    (gradient,) = torch.autograd.grad((reps * direction).sum(), points)
    return gradient
