"""The attack of Carlini and Wagner, inside a ball: a change of variables takes the constraint away."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.core.threat import towards
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.gradient import evaluate, value_and_grad
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.runtime.checked import Count, Positive

FIRST, SECOND, TINY = 0.9, 0.999, 1e-8
"""Adam's two rates of forgetting, and what keeps it from dividing by zero."""

EDGE = 3
"""Where the numbers that are squashed have reached the edge of the ball, but for half a percent."""


@dataclass(frozen=True)
class CarliniWagner(Attack):
    """Maximise the goal over u by Adam, with x' = clip(x + squash(u)); squash is ε tanh(u) for ℓ∞, radial for ℓ2.

    With the value of a classification failure as the goal, max_{j≠y} z_j - z_y, this is C&W's loss; the ball stands in
    place of their search for the smallest distance. Gradients are divided by their largest entry, so that the scale of
    the goal does not matter. They pass the clip to [0, 1] as if it were not there, so that a pixel that lies on its
    edge can come back, and what the clip cuts off is cut off u too.

    Attributes:
        steps: number of steps.
        rate: of Adam; how far a number moves in one step, where 1 reaches three quarters of the radius.
        start: standard deviation of the normal numbers at which u starts. The untargeted gradient is zero at x itself,
            so some move is needed; near the edge of the ball tanh is flat, so it is small.
        restarts: independent searches, each of `steps` steps; the best of all is reported.
        keep: "best" reports the best iterate up to a read-out (including the start); "last" the iterate itself.

    Source: Carlini & Wagner (2017), sections V.A and V.B; the ball's form as in Wang et al. (2025).

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = CarliniWagner(50)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: Count = 100
    rate: Positive = 0.3
    start: Positive = 0.1
    restarts: Count = 1
    keep: Literal["best", "last"] = "best"

    def canonicalise_prefix(self) -> Attack:
        """The number of steps only says where the trajectory ends."""
        return replace(self, steps=1)

    def truncate(self, steps: int) -> Attack:
        """Return the first `steps` steps."""
        return replace(self, steps=max(1, steps))

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """Return steps · rate / 3: it starts near x, and at u = 3 lies the edge, ε tanh 3 = .995 ε, in every ball."""
        return (self.steps if steps is None else steps) * self.rate / EDGE

    trial = Pgd.trial

    @property
    def passes(self) -> Passes:
        """One forward pass more than backward: the last iterate is evaluated, not stepped from."""
        return Passes(forward=self.steps + 1, backward=self.steps) * self.restarts

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        readout = Readout(check_readouts(readouts, self.steps), keep_best=self.keep == "best")
        for restart in range(self.restarts):
            readout.restart()
            u = self.start * rng.child("carlini_wagner", restart).normal(*x.shape[1:]).to(x)
            # The first and second moment of the gradient with respect to u, [B, C, H, W]
            mean, square = torch.zeros_like(u), torch.zeros_like(u)
            for count in range(self.steps):
                # x' = clip(x + squash(u)) and the gradient of the goal there
                at, u = _clip_perturbation(x, ball, u)
                values, reps, gradient = value_and_grad(goal, at)
                readout.see(count, at, values, reps)
                # Chain rule by hand, from pixels to u: it leaves out the clip, on purpose
                slope = _through(ball, u, gradient)
                # Adam on u: both moments, corrected for their start at zero
                # lerp(new, old, rate) is (1 - rate) · new + rate · old
                mean = torch.lerp(slope, mean, FIRST)
                square = torch.lerp(slope.square(), square, SECOND)
                size = (square / (1 - SECOND ** (count + 1))).sqrt() + TINY
                u = u + self.rate * mean / (1 - FIRST ** (count + 1)) / size
            at, _ = _clip_perturbation(x, ball, u)
            readout.see(self.steps, at, *evaluate(goal, at))
        return readout.trajectory()


def _clip_perturbation(x: Images, ball: Ball, u: Images) -> tuple[Images, Images]:
    """Return the images that u stands for, and u without what the clip takes from them: it would use up the ball."""
    delta = ball.squash(u)
    at = towards(x, delta)
    # delta is not 0 where the clip took a part of it. The same share of u is exact for small u only;
    # what still lies beyond the clip is taken after the next step.
    return at, torch.where((at - x).abs() < delta.abs(), u * (at - x) / delta, u)


def _through(ball: Ball, u: Images, gradient: Images) -> Images:
    """Return the gradient with respect to u, divided by its largest entry in each image (0 where all are)."""
    u = u.detach().requires_grad_()
    with torch.enable_grad():
        (slope,) = torch.autograd.grad(ball.squash(u), u, gradient)
    return slope / slope.abs().amax((1, 2, 3), keepdim=True).clamp_min(1e-30)
