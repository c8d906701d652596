"""The fast gradient sign method: one step to the edge of the ball."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.gradient import evaluate, value_and_grad
from holdfast.parts.attacks.shared.readout import Readout, check_readouts


@dataclass(frozen=True)
class Fgsm(Attack):
    """x' = clip(x + ε · ascend(∇ goal(x + η))): U-FGSM, and L-FGSM with a loss.

    Attributes:
        nudge: η is a random point of the ball scaled by this factor; it keeps the untargeted gradient, which is zero
            at x itself, from vanishing.

    Source: Goodfellow et al. (2015); Petrov & Kwiatkowska (2022), section 4.1.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Fgsm()(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    nudge: float = 0.1

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One."""
        return 1

    trial = Pgd.trial

    @property
    def passes(self) -> Passes:
        """One gradient, and one look at the result."""
        return Passes(forward=2, backward=1)

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        """Attack a batch, see `Attack`; read-out 0 is the nudged image."""
        # FGSM is its one step, even where the nudged image has the higher value
        readout = Readout(check_readouts(readouts, 1), keep_best=False)
        nudged = self._nudge_images(x, ball, rng)
        # one steepest step from x, its gradient taken at a nudged image
        values, reps, gradient = value_and_grad(goal, nudged)
        readout.see(0, nudged, values, reps)
        attacked = ball.step(x, x, gradient, ball.radius)
        readout.see(1, attacked, *evaluate(goal, attacked))
        return readout.trajectory()

    def worst(self, goal: Goal, x: Images, ball: Ball, rng: Rng) -> Images:
        """Return the attacked images alone, which are not evaluated."""
        # Only `__call__` is made to search at the best place; here that is chosen by hand
        (ball,) = self.at_places(goal, x, ball, rng)
        gradient = value_and_grad(goal, self._nudge_images(x, ball, rng))[2]
        return ball.step(x, x, gradient, ball.radius)

    def _nudge_images(self, x: Images, ball: Ball, rng: Rng) -> Images:
        return x + self.nudge * (ball.sample(x, rng.child("fgsm")) - x)
