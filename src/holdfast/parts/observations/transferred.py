"""Transferred attacks: images that were attacked on a surrogate, as the audited encoder represents them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Ball, Observation, Passes, Shard
from holdfast.numerics.geometry.spread import rounding, spread
from holdfast.parts.observations.attacked_images import AttackedImages
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.observations.shared.noisy import represent

SAME = 1e-3
"""Distance below which two encoders represent an image alike, in units of `spread`: beyond what batches change."""


@dataclass(frozen=True)
class Transferred(OfFirst):
    """f(x̂) for the images x̂ that an attack found on a surrogate, as `reps` [M, D].

    Also `same`, 1 where the surrogate represents the clean image as the audited encoder does: it is that encoder.

    Attributes:
        attacked: where the images come from.
    """

    attacked: AttackedImages = AttackedImages()

    @property
    @override
    def title(self) -> str:
        return f"transferred {self.attacked.title}"

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    @override
    def key(self) -> Observation:
        return replace(self, attacked=self.attacked.key(), first=None)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations: they lie in the ball, whatever was attacked."""
        return results["reps"][:, None] if ball.contains(self.attacked.ball) else None

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Represent one shard.

        Raises:
            HoldfastError: a representation that is not finite.
        """
        assert shard.read is not None  # first images always know what was seen before
        assert shard.clean is not None  # clean representations are always observed first
        seen = shard.read(self.attacked)
        clean, surrogates = shard.clean[shard.positions].double(), seen["reps"].double()
        reps = represent(shard, seen["images"].to(shard.x))
        # Another width is another encoder
        if clean.shape != surrogates.shape:
            return {"reps": reps, "same": reps.new_zeros(len(reps))}
        # The same encoder in other batches, or resized once more, gives nearly the same numbers
        apart, made = (clean - surrogates).norm(dim=1), rounding(shard.clean)[shard.positions]
        return {"reps": reps, "same": (apart <= made.clamp_min(SAME * spread(shard.clean))).to(reps)}
