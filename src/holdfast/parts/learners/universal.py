"""The worst perturbation that is the same for every image: one δ, learned over many."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Encoder, Event, Images, Passes, Reps, Rng
from holdfast.parts.learners.shared.learner import LearnedPerturbation, Learner, find_unharmed
from holdfast.parts.learners.shared.step import not_finite
from holdfast.runtime.errors import BadValue, unknown
from holdfast.runtime.waiting import defer_expectations, expect, move_to

ALGORITHMS = ("ascent", "aggregation")
"""How δ is found."""

OVERSHOOT = 1.02
"""Factor of a Newton step towards the edge of failing, so that it ends beyond it; that of DeepFool."""

FIRST, LAST, MOMENTUM = 0.5, 0.01, 0.9
"""Step sizes of the ascent in units of the radius, at the beginning and at the end, and what stays of a direction."""

SHARPNESS = 3.0
"""Slope of the smooth count: with less the typical image decides, with more the few that are about to fail."""

Perturbation = Float[Tensor, "channel height width"]

BLOCK = 256
"""Images of one encoder pass where none is stepped from."""


@dataclass(frozen=True)
class Universal(Learner):
    """argmin over δ in the ball of the share of images for which x + δ, cut off at 0 and 1, does not fail.

    "ascent": δ ← Π_ε[δ + α ascend(g)] over small batches, where g gathers, with a momentum, the gradients of the mean
    of sigmoid(3 value(x + δ) / s), a smooth count of failures; s is the median |value| of clean images, and α falls
    along a cosine. "aggregation": image after image; one that does not fail yet adds the smallest change that makes it,
    δ ← Π_ε[δ + Δ], with Δ by Newton steps on its value (DeepFool). Both keep the δ of the epoch after which the fewest
    images stand; neither is sure to find the worst. Of a patch δ stands for pixels that take the place of the image's,
    see `Patch.under`. Where it may lie anywhere, one epoch is spent at each place that attacks choose among, and each
    restart goes to the place where the fewest images stood after it, the next restart to the next best.

    Attributes:
        algorithm: "ascent" or "aggregation".
        epochs: passes over the training images.
        batch: images of one step of the ascent.
        newton: Newton steps of an image at most, of the aggregation.
        restarts: independent searches, of which the worst is kept; each begins at a random δ of the ball (the
            aggregation at a hundredth of one).
        images: training images at most, the first that do not fail without noise; None for all.

    Source: Moosavi-Dezfooli et al. (2017) (aggregation, there from δ = 0 and for labels); Shafahi et al. (2020)
    (ascent); Wang et al. (2025), appendix 7, Eq. 28 (its place there).

    Example:
        >>> Universal(epochs=5).passes
        Passes(forward=10, backward=5, bounds=0)
    """

    algorithm: str = "ascent"
    epochs: int = 20
    batch: int = 64
    newton: int = 10
    restarts: int = 1
    images: int | None = 1000

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm of universal", self.algorithm, ALGORITHMS)
        for name in ("epochs", "batch", "newton", "restarts"):
            if getattr(self, name) < 1:
                raise BadValue(f"universal {name}: expected at least 1, got {getattr(self, name)}")
        if self.images is not None and self.images < 2:
            raise BadValue(f"universal images: expected at least 2, or None for all, got {self.images}")

    @property
    def title(self) -> str:
        """How it is found, in a few words."""
        return f"learned, {self.algorithm}"

    @property
    def adaptive(self) -> bool:
        """Whether images that fail already cost less than `passes`."""
        return self.algorithm == "aggregation"

    @property
    def passes(self) -> Passes:
        """A forward pass of every epoch to judge δ; one forward and one backward for every step from an image."""
        return self._of_epochs(self.epochs * self.restarts)

    def passes_in(self, ball: Ball) -> Passes:
        """Encoder passes that one training image costs in a ball: one epoch more for each of its places."""
        return self.passes + (self._of_epochs(ball.places) if ball.places > 1 else Passes())

    def _of_epochs(self, count: int) -> Passes:
        steps = self.newton if self.adaptive else 1
        return Passes(forward=steps + 1, backward=steps) * count

    @defer_expectations()
    def learn(
        self,
        encoder: Encoder,
        x: Images,
        clean: Reps,
        event: Event,
        labels: Int[Tensor, "batch"] | None,
        ball: Ball,
        rng: Rng,
    ) -> LearnedPerturbation:
        """Learn the perturbation on some images, which must not be those it is then evaluated on."""
        clean = clean.detach().to(x)
        # Images that fail by themselves say nothing about δ
        rows = find_unharmed(clean, event, self.images)
        # s, the unit of the smooth count; 1 where all values are 0
        size = float(event(clean[rows, None], rows).abs().median()) or 1.0
        task = _Task(encoder, event, x, rows, ball, size)
        best, kept, reached, chances = (math.inf, math.inf), torch.zeros_like(x[0]), clean[rows], []
        balls = self._places(task, rng)  # the best place first
        for restart in range(self.restarts):
            numbers, at = rng.child("universal", restart).generator(), replace(task, ball=balls[restart % len(balls)])
            history = []
            for delta in self._search(at, numbers, self.epochs):
                # fewest images that stand; among equals those that are nearest to failing
                held, depth, reps = at.judge(delta)
                history.append(held)
                if (held, depth) < best:
                    best, kept, reached, chances = (held, depth), delta, reps, history
        return LearnedPerturbation(len(rows), torch.tensor(chances, dtype=torch.float64), kept, best[0], rows, reached)

    def _places(self, task: "_Task", rng: Rng) -> list[Ball]:
        """Return the ball at its fixed places, first that where the fewest images stand after one epoch."""
        ball = task.ball
        if ball.places == 1:
            return [ball]
        ranks = []
        for place in range(ball.places):
            at = replace(task, ball=ball.fix_place(torch.tensor([place], device=task.x.device)))
            (delta,) = self._search(at, rng.child("universal", "place", place).generator(), 1)
            ranks.append((*at.judge(delta)[:2], place, at.ball))
        # The number of the place decides among equals, for balls cannot be compared
        return [at for *_, at in sorted(ranks, key=lambda rank: rank[:3])]

    def _search(self, task: "_Task", numbers: torch.Generator, epochs: int) -> Iterator[Perturbation]:
        """Yield δ after each epoch of a search from a random point of the ball."""
        # One draw for all images
        start = task.ball.squash(torch.randn(task.x[:1].shape, generator=numbers).to(task.x))[0]
        search = self._ascent if self.algorithm == "ascent" else self._aggregation
        return search(task, start, numbers, epochs)

    def _ascent(
        self, task: "_Task", delta: Perturbation, numbers: torch.Generator, epochs: int
    ) -> Iterator[Perturbation]:
        """Yield δ after each epoch of steepest ascent."""
        count = max(1, len(task.rows) // self.batch)
        going = torch.zeros_like(delta)
        for epoch in range(epochs):
            for number, rows in enumerate(task.shuffle_rows(numbers).tensor_split(count)):
                gradient = task.gradient(delta, rows)
                # batches of any slope count alike in the momentum
                going = MOMENTUM * going + gradient / gradient.norm().clamp_min(torch.finfo(gradient.dtype).tiny)
                # Half a cosine from FIRST to LAST, step by step over the whole search
                fall = (1 + math.cos(math.pi * (epoch + number / count) / epochs)) / 2
                size = task.ball.radius * (LAST + (FIRST - LAST) * fall)
                delta = task.within(delta + size * task.ball.ascend(going[None])[0])
            yield delta

    def _aggregation(
        self, task: "_Task", delta: Perturbation, numbers: torch.Generator, epochs: int
    ) -> Iterator[Perturbation]:
        """Yield δ after each epoch in which every image that still stands has added what breaks it."""
        delta = delta / 100  # at 0 itself values such as a drift have no slope
        for _ in range(epochs):
            # Algorithm 1 of Moosavi-Dezfooli et al.: each image in turn adds to δ, and δ is projected
            for row in task.shuffle_rows(numbers).split(1):
                delta = task.within(delta + task.newton(delta, row, self.newton))
            yield delta


@dataclass(frozen=True)
class _Task:
    """The images that take part, and what is sought.

    Attributes:
        encoder: the frozen encoder.
        event: the failure, bound to all images.
        x: all images, [B, C, H, W].
        rows: those that take part, [N].
        ball: where δ lies.
        size: median of |value| over the clean images, the unit of values.
    """

    encoder: Encoder
    event: Event
    x: Images
    rows: Int[Tensor, "rows"]
    ball: Ball
    size: float

    def shuffle_rows(self, numbers: torch.Generator) -> Int[Tensor, "rows"]:
        """Return the images in a random order."""
        return self.rows[move_to(torch.randperm(len(self.rows), generator=numbers), self.rows.device)]

    def within(self, delta: Perturbation) -> Perturbation:
        """Return δ projected to the ball."""
        return self.ball.project(delta[None])[0]

    def values(self, delta: Perturbation, rows: Int[Tensor, "some"]) -> tuple[Float[Tensor, "some"], Reps]:
        """Return the values of some images under δ, in float64, and their representations.

        Raises:
            HoldfastError: a value that is not finite.
        """
        # with `clamp` a pasted pixel keeps its gradient at 0 and 1, and can leave them again
        moved = self.ball.under(self.x[rows], delta).clamp(0, 1)
        if self.x.is_contiguous(memory_format=torch.channels_last):
            moved = moved.contiguous(memory_format=torch.channels_last)
        reps = self.encoder(moved)
        # An event takes [B, draws, D]; here there is one draw of each image
        values = self.event(reps[:, None], rows)[:, 0]
        expect(values.detach().isfinite(), not_finite)
        return values, reps

    def gradient(self, delta: Perturbation, rows: Int[Tensor, "some"]) -> Perturbation:
        """Return the gradient of the smooth count of failures by δ."""
        with torch.enable_grad():
            leaf = delta.detach().requires_grad_()
            values, _ = self.values(leaf, rows)
            # The count is a step function without a gradient; sigmoid is its smooth form
            (gradient,) = torch.autograd.grad((SHARPNESS * values / self.size).sigmoid().mean(), leaf)
        return gradient

    def newton(self, delta: Perturbation, row: Int[Tensor, "one"], steps: int) -> Perturbation:
        """Return Δ that makes an image fail beside δ; 0 for one that does, the last step's where none was enough."""
        added = torch.zeros_like(delta)
        for _ in range(steps):
            with torch.enable_grad():
                leaf = (delta + added).detach().requires_grad_()
                value = self.values(leaf, row)[0].sum()
                (slope,) = torch.autograd.grad(value, leaf)
            # where the value, were it linear, would be zero: |value| / its steepest unit rise along that step
            uphill = self.ball.ascend(slope[None])[0]
            # One look at the device for both numbers
            height, rise = torch.stack([value.detach().double(), (slope * uphill).sum().double()]).tolist()
            if height > 0 or not rise > 0:  # it fails, or there is no slope and nowhere to go
                break
            added = added + (OVERSHOOT * -height / rise) * uphill
        return added

    def judge(self, delta: Perturbation) -> tuple[float, float, Reps]:
        """Return the share of the images that stand, minus their mean value, and their representations."""
        with torch.no_grad():
            # Without a gradient blocks may be larger than the batches that are stepped from
            blocks = [self.values(delta, rows) for rows in self.rows.split(BLOCK)]
        values, reps = (torch.cat(parts) for parts in zip(*blocks, strict=True))
        held, depth = torch.stack([(values <= 0).double().mean(), -values.mean().double()]).tolist()
        return held, depth, reps
