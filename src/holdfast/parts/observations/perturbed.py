"""Images under a perturbation that is the same for all of them, and was learned on others."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Passes, Shard
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import evaluate_clean, represent
from holdfast.parts.observations.shared.taken import find_confusions
from holdfast.parts.observations.universal_perturbation import UniversalPerturbation


@dataclass(frozen=True)
class Perturbed(OfFirst):
    """The value of a failure at x + δ, cut off at 0 and 1 (see `Ball.under`), as `value` [M]: above 0 where it fails.

    Also `wrong` [M]: whether the image fails as it is; `reps` [M, D], its representation under δ; `taken` [M]: the
    image that a failing one is taken for, -1 for one that holds, and of failures that are no such mistake. Only images
    that δ was not learned on are judged.

    Attributes:
        perturbation: what is learned first.

    Source: Wang et al. (2025), appendix 7, Eq. 28.
    """

    perturbation: UniversalPerturbation = UniversalPerturbation()

    @property
    @override
    def title(self) -> str:
        return f"images under one perturbation, {self.perturbation.ball.title}: {self.perturbation.failure.title}"

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them; none from which δ was learned."""
        return super().images(population, self.perturbation.count_held_out(population, attacked))

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations under δ."""
        return results["reps"][:, None] if ball.contains(self.perturbation.ball) else None

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Disturb one shard."""
        event, delta = self.perturbation.failure.bind(shard), self.perturbation.read_from(shard)["delta"].to(shard.x)
        ball = self.perturbation.ball
        # NPPR, Eq. 28, one δ for all; cut off at 0 and 1, and rounded
        # so that no image leaves the ball
        moved = ball.around(shard.x, ball.under(shard.x, delta))
        if shard.x.is_contiguous(memory_format=torch.channels_last):
            moved = moved.contiguous(memory_format=torch.channels_last)
        reps = represent(shard, moved)
        value = event(reps[:, None].double(), torch.arange(len(reps))).squeeze(1).cpu()
        return {
            "value": value,
            "taken": find_confusions(self.perturbation.failure, shard, reps, value > 0),
            "wrong": (evaluate_clean(shard, event) > 0).double(),
            "reps": reps.cpu(),
        }
