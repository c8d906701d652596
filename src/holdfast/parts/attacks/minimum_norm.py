"""The smallest change that breaks something, as an attack: it fails where its ball is too small for that."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, PerImage, Rng, Trajectory
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.gradient import evaluate
from holdfast.parts.attacks.shared.minimal import minimal_radius, passes
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.runtime.errors import BadValue
from holdfast.runtime.rounding import PIXELS

NUDGE = 0.1
"""Share of the way to a random point of the ball at which the search begins: some goals have no gradient at x."""


@dataclass(frozen=True)
class MinimumNorm(Attack):
    """Search min ||x' - x|| over the images with goal(x') > 0, then look at the edge of the ball in that direction.

    For goals that are above 0 where something breaks, such as `class_margin`. The radius of the ball does not guide the
    search: it grows until something breaks and shrinks from there, see `minimal.minimal_radius`. So it takes other
    ways than attacks that stay on the ball's edge, and finds more where the loss is flat or misleading there.

    What is reported lies in the ball: of the images that the search met there, and of x + (x' - x) ε / ||x' - x||, the
    one with the highest value. It is above 0 where the smallest change found is at most ε.

    Attributes:
        steps: gradient steps.

    Source: the part of FAB, Croce & Hein (2020b), in AutoAttack, with the search of Pintor et al. (2021).

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = MinimumNorm(20)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: int = 100

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise BadValue(f"minimum_norm: expected steps >= 1, got {self.steps}")

    trial = Pgd.trial

    @property
    def passes(self) -> Passes:
        """Those of the search and the look at the edge."""
        return passes(self.steps, from_broken=False) + Passes(forward=1)

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        readout, looks = Readout(check_readouts(readouts, self.steps)), 0

        def record_goal(at: Images) -> tuple[PerImage, Tensor]:
            nonlocal looks
            values, reps = goal(at)
            # The search leaves the ball; what lies outside never becomes the best that is read out
            here = values.detach().masked_fill(~within(ball, x, at), -torch.inf)
            # The looks after the last gradient step (halvings, the edge) belong to the last read-out
            readout.see(min(looks, self.steps), at.detach(), here, reps.detach())
            looks += 1
            return values, values[:, None]  # what decides whether something is broken, in place of representations

        # the search, then the edge of the ball along the way to what it found
        start = x + NUDGE * (ball.sample(x, rng.child("minimum_norm")) - x)
        _, image, _ = minimal_radius(record_goal, _positive, x, ball, self.steps, start=start)
        # Where nothing was broken `image` is x: a huge stretch of no way at all stays at x
        stretch = ball.radius / ball.size(image - x).clamp_min(1e-30).view(-1, 1, 1, 1)
        evaluate(record_goal, ball.around(x, x + stretch * (image - x)))
        return readout.trajectory()


def _positive(values: Tensor) -> Bool[Tensor, "batch"]:
    return values.squeeze(1) > 0


@torch.no_grad()
def within(ball: Ball, x: Images, at: Images) -> Bool[Tensor, "batch"]:
    """Whether each image lies in the ball around x and in [0, 1], but for rounding."""
    pixels = at.flatten(1)
    inside = (pixels.amin(1) >= -PIXELS) & (pixels.amax(1) <= 1 + PIXELS)
    return inside & (ball.size(at - x) <= ball.radius + PIXELS)
