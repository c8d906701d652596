"""A search for the smallest change: ascent of a goal inside a ball that shrinks below whatever breaks."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.core import Ball, Goal, Images, PerImage, Reps
from holdfast.core.threat import image_shape
from holdfast.parts.attacks.shared.gradient import pick, value_and_grad
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.runtime.waiting import at_hand

GROWTH = 1.3
"""Factor by which the ball grows at least while nothing in it breaks."""


class Descent:
    """δ ← Π_ε[δ + α ε ascend(∇goal)], image by image, with an ε of its own for each.

    ε shrinks by γ below every broken image and grows by γ after every other; until the first broken one it grows to
    where the goal, were it linear, would reach zero. α falls from `stride` to 0.01 and γ from 0.1 to 0.001 along a
    cosine. Pixels that a step would carry out of [0, 1] take no part in it. An image whose gradient is zero goes
    towards its nearest broken image, or else another image, in place of uphill: masked gradients do not end the search.

    Args:
        goal: what to maximise, zero where things break.
        ball: the norm; its own radius is not read.
        smallest: where broken images are noted, with the clean ones.
        start: where the search begins, [B, C, H, W].
        allowed: ε at the beginning, [B]; inf or None: the distance of the start.
        stride: α at the beginning.
        other: gives images, [B, C, H, W], towards which searches go that have neither a gradient nor a broken image.
        ascent: gives the goal's values, the representations and the gradient.

    Source: after Pintor et al. (2021).
    """

    def __init__(
        self,
        goal: Goal,
        ball: Ball,
        smallest: Smallest,
        start: Images,
        allowed: PerImage | None = None,
        stride: float = 1.0,
        other: Callable[[], Images] | None = None,
        ascent: Callable[[Goal, Images], tuple[PerImage, Reps, Images]] = value_and_grad,
    ):
        self._other, self._ascent = other, ascent
        self._goal, self._ball, self._stride, self.smallest = goal, ball, stride, smallest
        self.at, distance = start, ball.size(start - smallest.x)
        # ε of each image, [B]
        self.allowed = distance if allowed is None else torch.where(allowed.isinf(), distance, allowed)
        self.lost = smallest.radius.isinf() if allowed is not None else torch.ones_like(distance, dtype=torch.bool)
        # No two images are farther apart, so no ε need be larger
        self._largest = ball.even(image_shape(start))

    def go_on_from(self, images: Images, where: Bool[Tensor, "batch"]) -> None:
        """Go on from broken images where that is due, as far as they are away."""
        self.at = pick(where, images, self.at)
        self.allowed = torch.where(where, self._ball.size(images - self.smallest.x), self.allowed)
        self.lost = self.lost & ~where

    @property
    def _towards(self) -> Images:
        """Where to go without a gradient: the nearest broken image, else the other image, else nowhere."""
        if self._other is None or self.smallest.radius.isfinite().all():
            return self.smallest.image
        return pick(self.smallest.radius.isinf(), self._other(), self.smallest.image)

    def step(self, progress: float) -> None:
        """Make one step, of forward and backward pass.

        Args:
            progress: how much of the search is over, from 0 to 1.
        """
        x = self.smallest.x
        values, reps, gradient = self._ascent(self._goal, self.at)
        apart = self.at - x
        size = self._ball.size(apart)
        hit = self.smallest.see(self.at, reps, size)
        self.lost = self.lost & ~hit
        flat = gradient.flatten(1).abs().amax(1) == 0
        # what is broken far away shows the way instead; to ask whether it must is dearer on a device than to do it
        if (self._other is None and not at_hand(flat)) or flat.any():
            gradient = pick(flat, self._towards - x, gradient)
        # only pixels that a step leaves inside [0, 1] take part in it
        gradient = _free(self.at, gradient).mul_(gradient)
        # ε: shrink below a broken image; else grow, to where the linearised goal reaches zero (FMN, Eq. 6)
        fall = (1 + math.cos(math.pi * progress)) / 2
        gamma, alpha = 0.001 + 0.099 * fall, 0.01 + (self._stride - 0.01) * fall
        # `way` has unit size, so gradient · way is how much the goal rises per unit of it
        way = self._ball.ascend(gradient)
        slope = (gradient * way).flatten(1).sum(1).clamp_min(1e-30)
        linear = size + values.neg().clamp_min(0) / slope
        grown = torch.where(self.lost, torch.maximum(linear, GROWTH * self.allowed), self.allowed * (1 + gamma))
        shrunk = torch.minimum(self.allowed, size) * (1 - gamma)
        # Never beyond the smallest broken image: out there is nothing to gain
        self.allowed = torch.where(hit, shrunk, torch.minimum(grown, self.smallest.radius))
        # δ: an ascent step, projected on the ball of radius ε and on the box
        reach = self.allowed.clamp(1e-12, self._largest)
        self.at = self._ball.inside(x, (alpha * reach.view(-1, 1, 1, 1) * way).add_(apart), reach)


def _free(at: Images, gradient: Images) -> Images:
    """Return 1 for pixels that a step along the gradient leaves inside [0, 1], 0 for those on the edge, or still."""
    way = gradient.sign()
    # as arithmetic: to compare, and to choose pixel by pixel, takes several times as long
    return (way + at).clamp_(0, 1).sub_(at).mul_(way).sign_().clamp_(min=0)
