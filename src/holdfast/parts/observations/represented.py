"""Representations of disturbed images: one draw, or the one change of a corruption, for every image."""

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard, Threat
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import represent
from holdfast.parts.threats.gamma import Gamma


@dataclass(frozen=True)
class Represented(OfFirst):
    """f(x') with x' = threat(x), as `reps` [M, D].

    Attributes:
        threat: what befalls the images; of a noise, one draw for each image.
    """

    threat: Threat = Gamma()

    @property
    @override
    def title(self) -> str:
        return f"disturbed: {self.threat.title}"

    @property
    def sole_threat(self) -> Threat | None:
        """What befalls the images."""
        return self.threat

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Disturb and represent one shard.

        Raises:
            HoldfastError: a threat that these images do not fit, or a representation that is not finite.
        """
        return {"reps": represent(shard, shard.disturb(self.threat, shard.rng.child("represented")))}
