"""Attacked pairs: the lowest margin that attacks find between an image and its negatives."""

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.apgd import Apgd
from holdfast.core import Attack, Ball, Goal, HoldfastError, Objective, Passes, Shard
from holdfast.objectives.pair_margin import PairMargin
from holdfast.observations._some import SomeMargins, clean_of, confusion, rounding
from holdfast.registry import part_name
from holdfast.threats.linf import Linf


@dataclass(frozen=True)
class AttackedPairs(SomeMargins):
    """min m(x') over the images x' that attacks find in the ball, as `margin` [M, R].

    Also `clean` [M, R], m(x), and `rounding` [M, R], what float32 may have changed. There is one attack for each
    negative (one in all where the objective reads none, or on the lowest margin of a linear head); every image that is
    found counts for all rows.

    Attributes:
        attack: how to search.
        ball: where to search.
        objective: what to maximise: the margin itself, or for instance-wise PGD the contrastive loss.

    Source: RVCL, section 6.3; Kim et al. (2020), "Adversarial self-supervised contrastive learning" (instance-wise).
    """

    attack: Attack = Apgd(30)
    ball: Ball = Linf()
    objective: Objective = PairMargin()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.objective.batchwise:
            raise HoldfastError(
                f"{type(self.objective).__name__} couples the images of a batch; attack pairs with pair_margin, "
                "instance_contrastive or untargeted"
            )
        if self.negatives is None:
            raise HoldfastError("attacked_pairs: every negative is attacked on its own: say how many")

    @property
    def title(self) -> str:
        """What it observes, in a few words."""
        attack = f"{part_name(self.attack)}, {self.attack.steps} steps, {part_name(self.ball)} {self.ball.radius:g}"
        return f"attacked margins, {self.rows}: {attack}"

    @property
    def _attacks(self) -> int:
        return self.negatives or 1 if self.probe is None and self.objective.needs_target else 1

    @property
    def passes(self) -> Passes:
        """Those of all attacks."""
        return self.attack.passes * self._attacks

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the images of one shard."""
        margin, own = self.margins(shard), clean_of(shard)[shard.positions]
        lowest, reps = margin(own), own
        for number in range(self._attacks):
            rng = shard.rng.child("negative", number)
            found = self.attack(self._goal(shard, number), shard.x, self.ball, rng).reps[self.attack.steps].double()
            lowest, reps = torch.minimum(lowest, margin(found)), torch.maximum(reps.abs(), found.abs())
        return {"margin": lowest.cpu(), "clean": margin(own).cpu(), "rounding": rounding(margin, reps).cpu()}

    def _goal(self, shard: Shard, number: int) -> Goal:
        if self.probe is not None:
            return confusion(shard.encoder, self.margins(shard), shard.x)
        clean = clean_of(shard).to(shard.x.dtype)
        target = clean[self.others(shard)[:, number]] if self.objective.needs_target else None
        return self.objective.pursue(shard.encoder, clean[shard.positions], target)
