"""Projected gradient descent: repeated steepest-ascent steps, each brought back into the ball."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.shared.gradient import evaluate, value_and_grad
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.runtime.errors import BadValue
from holdfast.runtime.waiting import defer_expectations


@dataclass(frozen=True)
class Pgd(Attack):
    """x_{u+1} = clip(Π_{B(x,ε)}[x_u + α · ascend(∇ goal(x_u))]), from a random point of the ball.

    With `Untargeted` or `Targeted` objectives this is U-PGD, with losses L-PGD and L̄-PGD.

    Attributes:
        steps: number of steps.
        step_size: α in pixels (in the ball's norm); None: 2.5 · ε / steps, which lets every start reach every edge.
        restarts: independent searches, each of `steps` steps; the best of all is reported.
        start: "random" draws the start from the ball (the untargeted gradient at x itself is zero, so some move is
            needed); "nudge" starts at x and takes only the first gradient at a small random offset (BIM); "image"
            starts at x itself, for goals that have a gradient there, such as targeted ones.
        keep: "best" reports the best iterate up to a read-out (including the start); "last" the iterate itself, as
            the authors do.

    Source: Madry et al. (2018); Petrov & Kwiatkowska (2022), section 4.2.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Pgd(10)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: int = 50
    step_size: float | None = None
    restarts: int = 1
    start: Literal["random", "nudge", "image"] = "random"
    keep: Literal["best", "last"] = "best"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.restarts < 1 or (self.step_size is not None and not self.step_size > 0):
            raise BadValue(
                f"pgd: expected steps >= 1, restarts >= 1 and a positive step size, got steps={self.steps}, "
                f"restarts={self.restarts}, step_size={self.step_size}"
            )

    def canonicalise_prefix(self) -> Attack:
        """With a given step size the number of steps only says where the trajectory ends."""
        # α = 2.5 ε / steps differs with the number of steps from the first step on
        return self if self.step_size is None else replace(self, steps=1)

    def truncate(self, steps: int) -> Attack:
        """Return the first `steps` steps, where the step size does not depend on their number."""
        return self if self.step_size is None else replace(self, steps=max(1, steps))

    def reach(self, ball: Ball, steps: int | None = None) -> float:
        """Return steps · α / 2ε, from x itself steps · α / ε; restarts go no further. See `Attack.reach`."""
        longest = 2 * ball.radius if self.start == "random" else ball.radius
        return (self.steps if steps is None else steps) * self._size(ball) / longest

    def refine(self, ball: Ball) -> Attack:
        """Return twice the steps, each of half the length, or as long as the way to the ball's edge takes."""
        # Steps that were too short to get anywhere are no finer for being shorter
        return replace(self, steps=2 * self.steps, step_size=max(self._size(ball), ball.radius / self.steps) / 2)

    def trial(self: Attack, steps: int) -> Attack:
        """Return PGD of a few steps; that of other attacks by gradients, too."""
        return Pgd(steps)

    @property
    def passes(self) -> Passes:
        """One forward pass more than backward: the last iterate is evaluated, not stepped from."""
        return Passes(forward=self.steps + 1, backward=self.steps) * self.restarts

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        # U-PGD of section 4.2; whether it is untargeted or targeted is up to the goal
        read_at = check_readouts(readouts, self.steps)
        readout = Readout(read_at, keep_best=self.keep == "best")
        for restart in range(self.restarts):
            at, evaluate_at = self._begin(x, ball, rng.child("pgd", restart))
            readout.restart()
            for count in range(self.steps):
                # Both points are the same but in the first step of BIM, whose gradient is taken at x + η
                values, reps, gradient = value_and_grad(goal, evaluate_at)
                readout.see(count, evaluate_at, values, reps)
                # a step of length α along steepest ascent, projected on the ball and clipped to [0, 1]
                at = evaluate_at = self._step(x, at, gradient, ball)
            readout.see(self.steps, at, *evaluate(goal, at))
        return readout.trajectory()

    def worst(self, goal: Goal, x: Images, ball: Ball, rng: Rng) -> Images:
        """Return the attacked images alone; a single last iterate is not evaluated."""
        # Which of several points is best is known only when all of them are evaluated
        if self.keep == "best" or self.restarts > 1:
            return super().worst(goal, x, ball, rng)
        (ball,) = self.at_places(goal, x, ball, rng)
        at, evaluate_at = self._begin(x, ball, rng.child("pgd", 0))
        with defer_expectations():
            for _ in range(self.steps):
                at = evaluate_at = self._step(x, at, value_and_grad(goal, evaluate_at)[2], ball)
        return at

    def _size(self, ball: Ball) -> float:
        return self.step_size if self.step_size is not None else 2.5 * ball.radius / self.steps

    def _step(self, x: Images, at: Images, gradient: Images, ball: Ball) -> Images:
        return ball.step(x, at, gradient, self._size(ball))

    def _begin(self, x: Images, ball: Ball, rng: Rng) -> tuple[Images, Images]:
        """The start of the first step, and the image at which its gradient is taken."""
        if self.start == "image":
            return x, x
        start = ball.sample(x, rng)
        if self.start == "random":
            return start, start
        # η of section 4.1: a tenth of the way to a random point, where the gradient is not zero
        return x, (x + 0.1 * (start - x)).detach()
