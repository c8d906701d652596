"""Auto-PGD: projected gradient descent that chooses its own step sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.gradient import evaluate, pick, value_and_grad
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Apgd(Attack):
    """PGD with momentum, step 2ε at first, halved per image at checkpoints where progress stalls.

    z_{u+1} = Π[x_u + η ascend(∇)], x_{u+1} = Π[x_u + ¾ (z_{u+1} - x_u) + ¼ (x_u - x_{u-1})]. At checkpoint j the step
    of an image is halved, and its search goes on from its best point, when fewer than ρ = ¾ of the steps since the
    last checkpoint raised the objective, or when neither the step nor the best value has changed since then. There
    is nothing to tune but the budget.

    Attributes:
        steps: number of steps of each restart.
        restarts: independent searches; the best of all is reported.

    Source: Croce & Hein (2020a), Algorithm 1, here for objectives in representation space.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Apgd(10)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: int = 50
    restarts: int = 1

    def __post_init__(self) -> None:
        if self.steps < 1 or self.restarts < 1:
            raise BadValue(
                f"apgd: expected steps >= 1 and restarts >= 1, got steps={self.steps}, restarts={self.restarts}"
            )

    trial = Pgd.trial

    @property
    def passes(self) -> Passes:
        """One forward pass more than backward in each restart."""
        return Passes(forward=self.steps + 1, backward=self.steps) * self.restarts

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        readout = Readout(check_readouts(readouts, self.steps))
        for restart in range(self.restarts):
            readout.restart()
            self._search(goal, x, ball, rng.child("apgd", restart), readout)
        return readout.trajectory()

    def _search(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readout: Readout) -> None:
        at = ball.around(x, x + ball.radius * ball.ascend(ball.sample(x, rng) - x))  # a random point of the edge
        # x₀, W (checkpoints), η = 2ε, and what the two conditions for halving it compare
        previous = at
        checkpoints = _checkpoints(self.steps)
        eta = torch.full((len(x), 1, 1, 1), 2 * ball.radius, dtype=x.dtype, device=x.device)
        best_gradient = best_value = last_value = value_then = None
        rises = torch.zeros(len(x), device=x.device)
        halved_before = torch.ones(len(x), dtype=torch.bool, device=x.device)  # no "unchanged step" at the first
        since = 0
        for count in range(self.steps):
            # the value and gradient at x_u; x_max and f_max so far
            values, reps, gradient = value_and_grad(goal, at)
            if best_value is None or best_gradient is None or last_value is None:
                best_gradient, value_then = gradient, values
            else:
                rises += values > last_value
                # The order matters: `see`, below, raises best_value to the value of this point
                best_gradient = pick(values > best_value, gradient, best_gradient)
            best_value, best = readout.see(count, at, values, reps)
            last_value = values
            # at a checkpoint: condition 1 (too few steps rose) or 2 (η and f_max unchanged) halves η, back to x_max
            if count in checkpoints and value_then is not None:
                stalled = rises < 0.75 * (count - since)
                unchanged = ~halved_before & (best_value <= value_then)
                halve = stalled | unchanged
                eta = pick(halve, eta / 2, eta)
                # Both points become x_max, so the momentum of the path that is given up does not carry over
                at, previous = pick(halve, best, at), pick(halve, best, previous)
                # The gradient at x_max was kept, so going back to it costs no pass
                gradient = pick(halve, best_gradient, gradient)
                halved_before, value_then, since = halve, best_value, count
                rises = torch.zeros_like(rises)
            # z_{u+1} by a projected step, x_{u+1} by momentum α = ¾ (1 at the first step)
            way = ball.step(x, at, gradient, eta) - at
            # In place: `way` is a fresh difference that nothing else reads
            way = way.mul_(0.75).add_(at).add_(at - previous, alpha=0.25) if count else way.add_(at)
            at, previous = ball.around(x, way), at
        # The last point is only evaluated: a gradient there would lead nowhere
        readout.see(self.steps, at, *evaluate(goal, at))


def _checkpoints(steps: int) -> set[int]:
    """Return ⌈p_j · steps⌉ with p_0 = 0, p_1 = .22 and p_{j+1} = p_j + max(p_j - p_{j-1} - .03, .06)."""
    marks, before, now = set(), 0, 22  # in hundredths: in floats ⌈.57 · 100⌉ is 58
    while now <= 100:
        marks.add(-(-now * steps // 100))
        before, now = now, now + max(now - before - 3, 6)
    return marks
