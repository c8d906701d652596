"""The Square attack: random search with square patches, without any gradient."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.core import Attack, Ball, Goal, HoldfastError, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.shared.gradient import evaluate, pick
from holdfast.parts.attacks.shared.readout import Readout, check_readouts

TOGETHER = 10_000
"""Proposals that are drawn at a time."""


@dataclass(frozen=True)
class Square(Attack):
    """Propose one square patch of the ball's extreme values at a time; keep it where the objective rises.

    The perturbation starts as random vertical stripes. Each proposal sets a patch of side ⌊√(p·H·W)⌉ to one random
    sign per channel, p falling from `share` to small values along the budget. The pattern is brought to the ball's
    edge by `ball.radius · ball.ascend(pattern)`, so the same search serves every norm: for ℓ∞ it is the published
    attack, for ℓ2 the patch takes the pixels' signs and the whole is rescaled to the sphere. Where a ball changes one
    window of an image alone, all squares lie in that; the window of a ball that may choose is drawn once.

    A gradient attack that finds less than this one signals masked gradients.

    Attributes:
        steps: number of proposals, each one forward pass per image.
        share: first share of the image's area that a patch covers.

    Source: Andriushchenko et al. (2020), "Square attack", Algorithms 1 and 2, here for any objective.

    Example:
        >>> from holdfast.parts.threats.linf import Linf
        >>> goal = lambda x: (x.mean((1, 2, 3)), x.flatten(1))  # value to raise, representations
        >>> x = torch.full((1, 1, 2, 2), 0.5)
        >>> attacked = Square(50)(goal, x, Linf(0.1), Rng(0, ids=("a",)))
        >>> round(attacked.values[-1].item(), 3)
        0.6
    """

    steps: int = 500
    share: float = 0.8

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 < self.share <= 1:
            raise HoldfastError(
                f"square: expected steps >= 1 and a share in (0, 1], got steps={self.steps}, share={self.share}"
            )

    def trial(self, steps: int) -> Attack:
        """Return a search of three times as many proposals: that is what gradient steps cost."""
        return replace(self, steps=3 * steps)

    @property
    def passes(self) -> Passes:
        """Forward passes only: the start and every proposal."""
        return Passes(forward=self.steps + 1)

    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        """Attack a batch, see `Attack`."""
        readout = Readout(check_readouts(readouts, self.steps))
        # initialisation: vertical stripes of ±ε, one pixel wide
        rng = rng.child("square")
        channels, _, width = x.shape[1:]
        signs = _signs(rng.child("stripes").uniform(channels, 1, width).to(x)).expand_as(x)
        top, left, (height, width) = ball.frame(x, rng)
        inside = _rectangles(signs, top, left, height, width)
        signs = torch.where(inside, signs, 0)
        best = _extreme(x, ball, signs)
        value, reps = evaluate(goal, best)
        readout.see(0, best, value, reps)
        draws = x.new_empty(0)
        for count in range(self.steps):
            if count % TOGETHER == 0:  # all at once would take memory
                stream = rng.child("patches", count // TOGETHER) if count else rng.child("patches")
                draws = stream.uniform(min(TOGETHER, self.steps - count), 2 + channels).to(x)
            # sample a square of side h^(i) and a sign per channel (Algorithm 2)
            side = _side(self.share, count, self.steps, height, width)
            draw = draws[:, count % TOGETHER]
            down, across = ((draw[:, i] * (n - side + 1)).long() for i, n in enumerate((height, width)))
            square = _rectangles(signs, top + down, left + across, side, side)
            proposal = torch.where(square, _signs(draw[:, 2:])[:, :, None, None], signs)
            candidate = _extreme(x, ball, proposal)
            new, new_reps = evaluate(goal, candidate)
            readout.see(count + 1, candidate, new, new_reps)
            # keep the proposal where the goal rises
            better = new > value
            signs, value = pick(better, proposal, signs), torch.maximum(new, value)
        return readout.trajectory()


def _signs(uniform: Tensor) -> Tensor:
    return (uniform < 0.5).to(uniform) * 2 - 1


def _extreme(x: Images, ball: Ball, signs: Images) -> Images:
    return ball.around(x, x + ball.radius * ball.ascend(signs))


def _rectangles(like: Images, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Return which pixels of each image lie in its rectangle, [B, 1, H, W]."""
    rows, columns = (torch.arange(side, device=like.device) for side in like.shape[2:])
    top, left = top.view(-1, 1), left.view(-1, 1)
    down, across = (rows >= top) & (rows < top + height), (columns >= left) & (columns < left + width)
    return (down[:, :, None] & across[:, None, :])[:, None]


def _side(share: float, count: int, steps: int, height: int, width: int) -> int:
    """Return the patch's side; p halves at the published fractions of the budget."""
    done = count / steps * 10_000
    halvings = sum(done > mark for mark in (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000))
    return min(max(1, round((share / 2**halvings * height * width) ** 0.5)), height, width)
