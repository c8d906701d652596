"""The smallest broken images that searches have met, and the way back from them to the image."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.core import Ball, Goal, Images, PerImage, Reps
from holdfast.parts.attacks.shared.gradient import evaluate, pick

Breaks = Callable[[Reps], Bool[Tensor, "batch"]]
"""Whether representations are broken; where a goal is above zero, about."""


class Smallest:
    """Of every image the broken one that is nearest to it.

    Attributes:
        x: the clean images, [B, C, H, W].
        radius: its distance in pixels, [B]; inf where nothing was broken.
        image: it, [B, C, H, W]; x where nothing was broken.
        reps: its representation, [B, D]; NaN where nothing was broken; None before anything was seen.
    """

    def __init__(self, breaks: Breaks, x: Images, ball: Ball):
        self._breaks, self._ball = breaks, ball
        self.x, self.radius, self.image = x, x.new_full((len(x),), torch.inf), x
        self.reps: Reps | None = None

    def see(self, at: Images, reps: Reps, size: PerImage | None = None) -> Bool[Tensor, "batch"]:
        """Take note of some images, and of their distances where these are known; return which of them are broken."""
        broken, size = self._breaks(reps), self._ball.size(at - self.x) if size is None else size
        self._note(broken & (size < self.radius), size, at, reps)
        return broken

    def take(self, where: Bool[Tensor, "batch"], smallest: "Smallest") -> None:
        """Take over what another search met, for the images where that is due."""
        assert smallest.reps is not None  # something has been seen
        self._note(where, smallest.radius, smallest.image, smallest.reps)

    def _note(self, where: Bool[Tensor, "batch"], size: PerImage, at: Images, reps: Reps) -> None:
        self.radius, self.image = torch.where(where, size, self.radius), pick(where, at, self.image)
        self.reps = pick(where, reps, torch.full_like(reps, torch.nan) if self.reps is None else self.reps)

    def retreat(self, goal: Goal, halvings: int) -> None:
        """Halve the way from x (whole) to the broken images: they need not stay broken monotonically along it."""
        # Shares of the way to `end`, which is held: `see` puts nearer broken images in place of self.image
        low, high, end = torch.zeros_like(self.radius), torch.ones_like(self.radius), self.image
        for _ in range(halvings):
            middle = (low + high) / 2
            at = self.x + middle.view(-1, 1, 1, 1) * (end - self.x)
            # The lower half goes on where the middle is broken, the upper one where it is not
            broken = self.see(at, evaluate(goal, at)[1])
            low, high = torch.where(broken, low, middle), torch.where(broken, middle, high)
