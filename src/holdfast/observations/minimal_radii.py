"""Minimal adversarial radii: the smallest change found that confuses an image with a negative."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks._minimal import Breaks, minimal_radius, passes
from holdfast.core import Ball, HoldfastError, Images, Margin, Observation, Passes, Shard
from holdfast.observations._some import SomeMargins, clean_of, confusion, nearest_rows, rounding, row
from holdfast.registry import part_name
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class MinimalRadii(SomeMargins):
    """min ||x' - x|| over the images x' with m(x') < 0 that were found, as `radius` [M, K] in pixels; inf where none.

    The search begins from the negative itself as well, which is confused with itself. Every radius belongs to a real
    image whose margin is below zero by more than rounding, so the true radius is at most this. Where a negative has the
    representation of the image itself, the margin is zero everywhere and the radius 0. With a linear head there is one
    column: the smallest change of class.

    Attributes:
        ball: the norm; its radius is not read.
        steps: gradient steps of each search.
    """

    ball: Ball = Linf()
    steps: int = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1 or not isinstance(self.negatives, int):
            raise HoldfastError(
                f"minimal_radii: expected steps >= 1 and a number of negatives, got steps={self.steps}, "
                f"negatives={self.negatives}"
            )

    @property
    def title(self) -> str:
        """What it observes, in a few words."""
        return f"smallest attacks, {self.rows}: {self.steps} steps, {part_name(self.ball)}"

    def key(self) -> Observation:
        """The radius of the ball is not read."""
        return replace(self, first=None, ball=type(self.ball)())

    @property
    def passes(self) -> Passes:
        """Those of one search for each negative, or class; at most so many where there are fewer classes."""
        return passes(self.steps, self.probe is None) * (self.compared or 1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Search for one shard."""
        margin = self.margins(shard)
        if self.probe is not None:
            classes = nearest_rows(margin, clean_of(shard)[shard.positions], self.compared or 1)
            found = [self._search(shard, row(margin, numbers), None) for numbers in classes.unbind(1)]
            return {"radius": torch.stack(found, 1).amin(1, keepdim=True)}
        if shard.others is None:
            raise HoldfastError("minimal_radii: the search begins at the negatives, and their images cannot be had")
        found = []
        for number, others in enumerate(self.others(shard).unbind(1)):
            these = torch.full_like(others, number)
            found.append(self._search(shard, row(margin, these), shard.others(others)))
        return {"radius": torch.stack(found, 1)}

    def _search(self, shard: Shard, margin: Margin, known: Images | None) -> Tensor:
        goal, breaks = confusion(shard.encoder, margin, shard.x), _breaks(margin)
        with shard.encoder.exactly():  # every pass decides whether an image breaks
            return minimal_radius(goal, breaks, shard.x, self.ball, self.steps, known)[0].double().cpu()


def _breaks(margin: Margin) -> Breaks:
    def breaks(reps: Tensor) -> Tensor:
        exact = reps.double()
        return (margin(exact) <= -rounding(margin, exact)).squeeze(1)

    return breaks
