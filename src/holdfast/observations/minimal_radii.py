"""Minimal adversarial radii: the smallest change found that confuses an image with a negative."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.attacks._minimal import minimal_radius, passes
from holdfast.core import Ball, HoldfastError, Margin, Observation, Passes, Reps, Shard
from holdfast.objectives.pair_margin import PairMargin
from holdfast.observations._some import Some, clean_of, pair_margins
from holdfast.registry import part_name
from holdfast.threats.linf import Linf

ROUNDING = 1e-6
"""Share of the sum of magnitudes by which a margin has to be below zero, because the encoder computes in float32."""


@dataclass(frozen=True)
class MinimalRadii(Some):
    """min ||x' - x|| over the images x' with m(x') < 0 that were found, as `radius` [M, K] in pixels; inf where none.

    The search begins from the negative itself as well, which is confused with itself. Every radius belongs to a real
    image that the encoder confuses, so the true radius of the pair is at most this.
    Where a negative has the representation of the image itself, the margin is zero everywhere and the radius 0.

    Attributes:
        ball: the norm; its radius is not read.
        negatives: K, drawn for each image; the same as those of `Radii`.
        divergence: "cosine" or "l2", of the margin.
        steps: gradient steps for each pair.
    """

    ball: Ball = Linf()
    negatives: int = 10
    divergence: str = "cosine"
    steps: int = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise HoldfastError(f"minimal_radii: expected steps >= 1, got {self.steps}")

    def key(self) -> Observation:
        """The radius of the ball is not read."""
        return replace(self, first=None, ball=type(self.ball)())

    @property
    def title(self) -> str:
        """What it observes, in a few words."""
        return f"smallest attacks on {self.negatives} pairs per image: {self.steps} steps, {part_name(self.ball)}"

    @property
    def passes(self) -> Passes:
        """Those of one search for each negative."""
        return passes(self.steps) * self.negatives

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Search for one shard."""
        clean = clean_of(shard)
        margin, others = pair_margins(shard, self.negatives, self.divergence)
        own, objective = clean[shard.positions].to(shard.x), PairMargin(self.divergence)
        found = []
        for number in range(self.negatives):
            goal = objective.pursue(shard.encoder, own, clean[others[:, number]].to(shard.x))
            breaks = _Breaks(Margin(margin.weights[:, number : number + 1], margin.bias[:, number : number + 1]))
            known = shard.others(others[:, number]) if shard.others is not None else None
            found.append(minimal_radius(goal, breaks, shard.x, self.ball, self.steps, known)[0])
        return {"radius": torch.stack(found, 1).double().cpu()}


class _Breaks:
    """Whether a margin is below zero by more than rounding (or zero everywhere)."""

    def __init__(self, margin: Margin):
        self._margin = margin

    def __call__(self, reps: Reps) -> Bool[Tensor, "batch"]:
        exact = reps.double()
        size: Float[Tensor, "batch 1"] = Margin(self._margin.weights.abs(), self._margin.bias.abs())(exact.abs())
        return (self._margin(exact) <= -ROUNDING * size).squeeze(1)
