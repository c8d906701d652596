"""The Square attack: random search with square patches, without any gradient."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Images, Passes, Rng, Trajectory
from holdfast.parts.attacks.shared.gradient import evaluate, pick
from holdfast.parts.attacks.shared.readout import Readout, check_readouts
from holdfast.parts.threats.shared.window import rectangle
from holdfast.runtime.errors import BadValue

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

    Source: Andriushchenko et al. (2020), Algorithms 1 and 2, here for any objective.

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
            raise BadValue(
                f"square: expected steps >= 1 and a share in (0, 1], got steps={self.steps}, share={self.share}"
            )

    def trial(self, steps: int) -> Attack:
        """Return a search of three times as many proposals: that is what gradient steps cost."""
        return replace(self, steps=3 * steps)

    @property
    def passes(self) -> Passes:
        """Forward passes only: the start and every proposal."""
        return Passes(forward=self.steps + 1)

    @override
    def __call__(self, goal: Goal, x: Images, ball: Ball, rng: Rng, readouts: Sequence[int] = ()) -> Trajectory:
        readout = Readout(check_readouts(readouts, self.steps))
        # initialisation: vertical stripes of ±ε, one pixel wide
        rng = rng.child("square")
        channels, _, width = x.shape[1:]
        signs = draw_signs(rng.child("stripes").uniform(channels, 1, width).to(x)).expand_as(x)
        # Outside the frame the pattern is 0, which `ascend` leaves where it is
        top, left, size = ball.frame(x, rng)
        inside = rectangle(top, left, size, (x.shape[2], x.shape[3]), x.device)[:, None]
        canvas = (_Pixels if ball.is_box else _Signs)(x, ball, torch.where(inside, signs, 0))
        value, reps = evaluate(goal, canvas.image)
        readout.see(0, canvas.image, value, reps)
        # For each proposal a row, a column and a sign for each channel, [B, proposals, 2 + C]
        draws = x.new_empty(0)
        for count in range(self.steps):
            if count % TOGETHER == 0:  # all at once would take memory
                stream = rng.child("patches", count // TOGETHER) if count else rng.child("patches")
                draws = stream.uniform(min(TOGETHER, self.steps - count), 2 + channels).to(x)
            # sample a square of side h^(i) and a sign per channel (Algorithm 2)
            side = find_side(self.share, count, self.steps, *size)
            draw = draws[:, count % TOGETHER]
            # Uniform over the n - side + 1 rows and columns at which a square fits into the frame
            down, across = ((draw[:, i] * (n - side + 1)).long() for i, n in enumerate(size))
            candidate = canvas.propose(top + down, left + across, side, draw_signs(draw[:, 2:]))
            new, new_reps = evaluate(goal, candidate)
            # keep the proposal where the goal rises
            _, best = readout.see(count + 1, candidate, new, new_reps)
            # Before `value` is raised: `better` compares with the best one before this proposal
            canvas.keep(new > value, best)
            value = torch.maximum(new, value)
        return readout.trajectory()


class _Signs:
    """The perturbation as a pattern of signs, which the ball makes an image.

    Attributes:
        image: the best one so far, [B, C, H, W].
    """

    def __init__(self, x: Images, ball: Ball, signs: Images):
        self._x, self._ball, self._signs, self._proposal = x, ball, signs, signs
        self.image = self._extreme(signs)

    def _extreme(self, signs: Images) -> Images:
        # For ℓ∞ the pattern itself, for ℓ2 its direction; signs that are 0 add nothing to either
        return self._ball.around(self._x, self._x + self._ball.radius * self._ball.ascend(signs))

    def propose(
        self, top: Int[Tensor, "batch"], left: Int[Tensor, "batch"], side: int, signs: Float[Tensor, "batch channel"]
    ) -> Images:
        """Return the images with a square of each set to one sign per channel, [B, C]."""
        square = rectangle(top, left, (side, side), (self._x.shape[2], self._x.shape[3]), self._x.device)[:, None]
        self._proposal = torch.where(square, signs[:, :, None, None], self._signs)
        return self._extreme(self._proposal)

    def keep(self, better: Bool[Tensor, "batch"], image: Images) -> None:
        """Keep what was proposed for some images; `image` is then the best one of each."""
        self._signs, self.image = pick(better, self._proposal, self._signs), image


class _Pixels(_Signs):
    """The same where pixels move independently: the square alone is painted, with the ends of the ball there."""

    def __init__(self, x: Images, ball: Ball, signs: Images):
        super().__init__(x, ball, signs)
        # The lowest and the highest image of the ball, [2, B, C, H, W]
        self._ends = torch.stack([self._extreme(torch.full_like(x, sign)) for sign in (-1, 1)])
        self._images, self._channels = (torch.arange(count, device=x.device) for count in x.shape[:2])

    def propose(
        self, top: Int[Tensor, "batch"], left: Int[Tensor, "batch"], side: int, signs: Float[Tensor, "batch channel"]
    ) -> Images:
        """Return the images with a square of each set to one end per channel, [B, C]."""
        # Broadcast to [B, C]: each image has its own place, which all of its channels share
        places = self._images[:, None], self._channels, top[:, None], left[:, None]
        image = self.image.clone()
        # Windows of the view overlap, but only one of each image and channel is written
        _windows(image, side)[places] = _windows(self._ends, side)[((signs > 0).long(), *places)]
        return image

    def keep(self, better: Bool[Tensor, "batch"], image: Images) -> None:
        """Keep the best images."""
        self.image = image


def _windows(images: Tensor, side: int) -> Tensor:
    """Return a view of all squares of images, [..., H - side + 1, W - side + 1, side, side]."""
    return images.unfold(-2, side, 1).unfold(-2, side, 1)


def draw_signs(uniform: Tensor) -> Tensor:
    """Return a sign for each number of [0, 1)."""
    return (uniform < 0.5).to(uniform) * 2 - 1


def find_side(share: float, count: int, steps: int, height: int, width: int) -> int:
    """Return the patch's side; p halves at the published fractions of the budget."""
    # The schedule was published for a budget of 10,000 queries
    done = count / steps * 10_000
    halvings = sum(done > mark for mark in (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000))
    # A large share of an oblong image would ask for a side that is longer than its shorter one
    return min(max(1, round((share / 2**halvings * height * width) ** 0.5)), height, width)
