"""Attacked pairs: the lowest margin that attacks find between an image and its negatives."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Attack, Ball, Goal, Margin, Objective, Passes, Reps, Search, Shard
from holdfast.core.registry import part_name
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.failures.misclassified import Misclassified
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.observations.shared.margins import OfMargins, clean_of, confusion, nearest_rows, rounding, row
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue, Missing


@dataclass(frozen=True)
class AttackedPairs(OfMargins):
    """min m(x') over the images x' that attacks find in the ball, as `margin` [M, R].

    Also `clean` [M, R], m(x), and `rounding` [M, R], what float32 may have changed. There is one attack for each
    negative or class (one in all where the objective reads none); every image that is found counts for all rows; the
    representations of these are `reps` [M, attacks, D].

    Attributes:
        attack: how to search.
        ball: where to search.
        objective: what to maximise: the margin itself, in this observation's divergence, or for instance-wise PGD the
            contrastive loss.

    Source: Wang & Liu (2023), section 6.3; Kim et al. (2020) (instance-wise).
    """

    attack: Attack = Apgd(30)
    ball: Ball = Linf()
    objective: Objective = PairMargin()

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.objective, PairMargin):  # the margin that counts, and that is certified
            object.__setattr__(self, "objective", PairMargin(self.divergence))
        if self.objective.batchwise:
            raise BadValue(
                f"{type(self.objective).__name__} couples the images of a batch; attack pairs with pair_margin, "
                "instance_contrastive or untargeted"
            )
        if self.negatives is None:
            raise Missing("attacked_pairs: every negative is attacked on its own: say how many")

    @property
    @override
    def title(self) -> str:
        attack = f"{part_name(self.attack)}, {self.attack.steps} steps, {self.ball.title}"
        return f"attacked margins, {self.rows}: {attack}"

    @property
    def _attacks(self) -> int:
        # An objective without a target pursues the same thing for every
        # negative, so one search serves all
        return self.comparisons or 1 if self.probe is not None or self.objective.needs_target else 1

    @property
    def passes(self) -> Passes:
        """Those of all attacks; at most so many where there are fewer classes."""
        return self.attack.passes_in(self.ball) * self._attacks

    @property
    def searches(self) -> tuple[Search, ...]:
        """The one that it makes for each row; those for classes seek a misclassification."""
        sought = self.objective if self.probe is None else Misclassified(self.probe)
        return (Search(self.attack, self.ball, sought),)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations of all images that the attacks ended at."""
        return results["reps"] if ball.contains(self.ball) else None

    @property
    def reevaluations(self) -> int:
        """The images that the attacks end at."""
        return self._attacks

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Attack the images of one shard."""
        margin, own = self.margins(shard), clean_of(shard)[shard.positions]
        lowest, reps, ends = margin(own), own, []
        # Every image found is held against all rows: one made for a negative may confuse another
        for number, goal in enumerate(self._goals(shard, margin, own)):
            rng = shard.rng.child("negative", number)
            searched = self.attack(goal, shard.x, self.ball, rng).reevaluate(goal, shard.encoder)
            ends.append(searched.reps[self.attack.steps].float().cpu())
            attacked = searched.reps[self.attack.steps].double()
            # The largest magnitude of each coordinate stays too, since rounding grows with it
            lowest, reps = torch.minimum(lowest, margin(attacked)), torch.maximum(reps.abs(), attacked.abs())
        return {
            "margin": lowest.cpu(),
            "clean": margin(own).cpu(),
            "rounding": rounding(margin, reps).cpu(),
            "reps": torch.stack(ends, 1),
        }

    def _goals(self, shard: Shard, margin: Margin, own: Reps) -> Iterator[Goal]:
        if self.probe is not None:
            # The boundaries that are nearest in representation space,
            # as most classes are lost there
            for classes in nearest_rows(margin, own, self._attacks).unbind(1):
                yield confusion(shard.encoder, row(margin, classes), shard.x)
            return
        clean = own.to(shard.x.dtype)
        for target in self.against(shard).to(clean).unbind(1)[: self._attacks]:
            # RVCL, Definition 10: towards each x⁻, by the contrastive
            # loss where that is the objective
            yield self.objective.pursue(shard.encoder, clean, target if self.objective.needs_target else None)
