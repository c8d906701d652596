"""Representations of the images that probes learn from, as they are or disturbed like those of the test."""

from dataclasses import dataclass

from torch import Tensor
from typing_extensions import override

from holdfast.core import Passes, Shard, Threat
from holdfast.parts.observations.shared.noisy import represent
from holdfast.parts.observations.shared.training import OfTraining


@dataclass(frozen=True)
class Training(OfTraining):
    """f(x), or f(threat(x)), of every training image, as `reps` [T, D]: made once for all probes that learn from them.

    Attributes:
        threat: what befalls the images; None: nothing. Of a noise, one draw for each image.
    """

    threat: Threat | None = None

    @property
    @override
    def title(self) -> str:
        return "training images" + ("" if self.threat is None else f": {self.threat.title}")

    @property
    def sole_threat(self) -> Threat | None:
        """What befalls the images."""
        return self.threat

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Represent one shard.

        Raises:
            HoldfastError: a threat that these images do not fit, or a representation that is not finite.
        """
        x = shard.x if self.threat is None else shard.disturb(self.threat, shard.rng.child("training"))
        return {"reps": represent(shard, x)}
