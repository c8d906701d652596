"""Attacked pairs: the lowest margin that attacks find between an image and its negatives."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.apgd import Apgd
from holdfast.core import Attack, Ball, HoldfastError, Objective, Passes, Shard
from holdfast.objectives.pair_margin import PairMargin
from holdfast.observations._some import Some, clean_of, pair_margins
from holdfast.registry import part_name
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class AttackedPairs(Some):
    """min m(x') over the images x' that attacks find in the ball, as `margin` [M, K]; and `clean` [M, K], m(x).

    One attack for each negative (one in all where the objective reads none); every image that is found counts for
    all of them.

    Attributes:
        attack: how to search.
        ball: where to search.
        objective: what to maximise: the margin itself, or for instance-wise PGD the contrastive loss.
        negatives: K, drawn for each image; the same as those of `Certified` and `Radii`.
        divergence: "cosine" or "l2", of the margin that is reported.

    Source: RVCL, section 6.3; Kim et al. (2020), "Adversarial self-supervised contrastive learning" (instance-wise).
    """

    attack: Attack = Apgd(30)
    ball: Ball = Linf()
    objective: Objective = PairMargin()
    negatives: int = 10
    divergence: str = "cosine"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective.batchwise:
            raise HoldfastError(
                f"{type(self.objective).__name__} couples the images of a batch; attack pairs with pair_margin, "
                "instance_contrastive or untargeted"
            )

    @property
    def _attacks(self) -> int:
        return self.negatives if self.objective.needs_target else 1

    @property
    def title(self) -> str:
        """What it observes, in a few words."""
        attack = f"{part_name(self.attack)}, {self.attack.steps} steps, {part_name(self.ball)} {self.ball.radius:g}"
        return f"margins of {self.negatives} pairs per image: {attack}"

    @property
    def passes(self) -> Passes:
        """Those of one attack for each negative."""
        return self.attack.passes * self._attacks

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the pairs of one shard."""
        clean = clean_of(shard)
        margin, others = pair_margins(shard, self.negatives, self.divergence)
        own = clean[shard.positions]
        before = margin(own)
        lowest = before
        for number in range(self._attacks):
            goal = self.objective.pursue(shard.encoder, own.to(shard.x), clean[others[:, number]].to(shard.x))
            found = self.attack(goal, shard.x, self.ball, shard.rng.child("negative", number))
            lowest = torch.minimum(lowest, margin(found.reps[self.attack.steps].double()))
        return {"margin": lowest.cpu(), "clean": before.cpu()}
