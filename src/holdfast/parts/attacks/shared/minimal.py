"""The smallest change that breaks something: the attack's side of a radius."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.core import Ball, Goal, Images, Passes, PerImage, Reps
from holdfast.parts.attacks.shared.gradient import evaluate, pick, value_and_grad

Breaks = Callable[[Reps], Bool[Tensor, "batch"]]
"""Whether representations are broken; where a goal is above zero, about."""

HALVINGS = 10
"""Halvings of the way from the image to the smallest broken one at the end."""


GROWTH = 1.3
"""Factor by which the ball grows at least while nothing in it breaks."""


def minimal_radius(
    goal: Goal,
    breaks: Breaks,
    x: Images,
    ball: Ball,
    steps: int,
    broken: Images | None = None,
    start: Images | None = None,
) -> tuple[PerImage, Images, Reps]:
    """Return for each image the smallest radius at which a broken image was found, in pixels, that image and its f.

    A gradient search inside a ball that shrinks (by γ) below every broken image and grows while there is none:
    δ ← Π_ε[δ + α ε ascend(∇goal)]; until the first one ε grows to where the goal, were it linear, would reach zero.
    α falls from 1 to 0.01 and γ from 0.1 to 0.001 along a cosine. Searches that have found nothing after a quarter of
    the steps go on from the edge of what is broken between x and `broken`. Then the way back to x is halved. What
    is returned has been seen to break the encoder; where nothing was found the radius is infinite, the image x, and
    its representation NaN.

    Args:
        goal: what to maximise, zero where things break.
        breaks: what counts as broken; the last word.
        x: clean images, [B, C, H, W].
        ball: the norm; its own radius is not read.
        steps: gradient steps.
        broken: images that are known to break, far away as they may be, such as the negatives themselves.
        start: where the search begins, for goals without a gradient at x itself; None: at x.

    Source: after Pintor et al. (2021), "Fast minimum-norm adversarial attacks through adaptive norm constraints".
    """
    best = _Best(goal, breaks, x, ball)
    if broken is not None:
        best.see(broken, evaluate(goal, broken)[1])
        best.retreat()
    begin = x if start is None else start
    at, allowed = begin, ball.size(begin - x)
    lost = torch.ones(len(x), dtype=torch.bool, device=x.device)
    for step in range(steps):
        # a quarter of the way: searches that broke nothing go on from the given broken image
        if step == steps // 4:
            edge = pick(best.radius.isinf(), begin, best.image)
            at, allowed = pick(lost, edge, at), torch.where(lost, best.radius, allowed)
            lost = lost & best.radius.isinf()
        values, reps, gradient = value_and_grad(goal, at)
        hit, size = best.see(at, reps), ball.size(at - x)
        lost = lost & ~hit
        # ε: shrink below a broken image; else grow, to where the linearised goal reaches zero (FMN, Eq. 6)
        fall = (1 + math.cos(math.pi * step / steps)) / 2
        gamma, alpha = 0.001 + 0.099 * fall, 0.01 + 0.99 * fall
        uphill = ball.ascend(gradient)
        slope = (gradient * uphill).flatten(1).sum(1).clamp_min(1e-30)
        linear = size + values.neg().clamp_min(0) / slope
        grown = torch.where(lost, torch.maximum(linear, GROWTH * allowed), allowed * (1 + gamma))
        allowed = torch.where(hit, torch.minimum(allowed, size) * (1 - gamma), torch.minimum(grown, best.radius))
        # δ: an ascent step, projected on the ball of radius ε
        reach = allowed.clamp(1e-12, best.largest).view(-1, 1, 1, 1) / ball.radius  # balls of every size look alike
        moved = at - x + alpha * ball.radius * reach * uphill
        at = (x + ball.project(moved / reach) * reach).clamp(0, 1)
    # the last iterate counts too; then bisect the way back to x
    best.see(at, evaluate(goal, at)[1])
    best.retreat()
    assert best.reps is not None  # the last look has been noted
    return best.radius, best.image, best.reps


class _Best:
    """The smallest broken images so far."""

    def __init__(self, goal: Goal, breaks: Breaks, x: Images, ball: Ball):
        self._goal, self._breaks, self._x, self._ball = goal, breaks, x, ball
        self.radius, self.image = x.new_full((len(x),), torch.inf), x
        self.reps: Reps | None = None
        self.largest = float(ball.size(torch.ones_like(x[:1])))

    def see(self, at: Images, reps: Reps) -> Bool[Tensor, "batch"]:
        """Take note of some images; return which of them are broken."""
        broken, size = self._breaks(reps), self._ball.size(at - self._x)
        better = broken & (size < self.radius)
        self.radius, self.image = torch.where(better, size, self.radius), pick(better, at, self.image)
        self.reps = pick(better, reps, torch.full_like(reps, torch.nan) if self.reps is None else self.reps)
        return broken

    def retreat(self) -> None:
        """Halve the way from x (whole) to the broken images: they need not stay broken monotonically along it."""
        low, high, end = torch.zeros_like(self.radius), torch.ones_like(self.radius), self.image
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            at = self._x + middle.view(-1, 1, 1, 1) * (end - self._x)
            broken = self.see(at, evaluate(self._goal, at)[1])
            low, high = torch.where(broken, low, middle), torch.where(broken, middle, high)


def passes(steps: int, from_broken: bool) -> Passes:
    """Encoder passes that `minimal_radius` costs for one image, with or without an image that is known to break."""
    return Passes(forward=steps + 1 + HALVINGS + (1 + HALVINGS) * from_broken, backward=steps)
