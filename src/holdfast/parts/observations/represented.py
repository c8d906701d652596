"""Representations of disturbed images: one draw, or the one change of a corruption, for every image."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard, Threat
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import draw_noisy_images, represent
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.gamma import Gamma


@dataclass(frozen=True)
class Represented(OfFirst):
    """f(x') with x' = threat(x), as `reps` [M, D].

    Attributes:
        threat: what befalls the images; of a noise, one draw for each image; an observation that learns a noise first.
    """

    threat: Threat | WorstNoise = Gamma()

    @property
    @override
    def title(self) -> str:
        return f"disturbed: {self.threat.title}"

    @property
    def sole_threat(self) -> Threat | None:
        """What befalls the images, where it is not learned first."""
        return None if isinstance(self.threat, WorstNoise) else self.threat

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them; none from which a noise was learned."""
        # A noise is judged on images that it has not seen
        if isinstance(self.threat, WorstNoise):
            attacked = self.threat.count_held_out(population, attacked)
        return super().images(population, attacked)

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Disturb and represent one shard.

        Raises:
            HoldfastError: a threat that these images do not fit, or a representation that is not finite.
        """
        if not isinstance(self.threat, WorstNoise):
            return {"reps": represent(shard, shard.disturb(self.threat, shard.rng.child("represented")))}
        # The first of the draws by which the noise is judged
        rows = torch.arange(len(shard.x))
        return {"reps": represent(shard, draw_noisy_images(shard, self.threat.read_from(shard), rows, 0, 1)[:, 0])}
