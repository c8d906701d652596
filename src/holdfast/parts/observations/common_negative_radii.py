"""Radii of many images against the same few negatives."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import Margin, Shard
from holdfast.core.registry import part_name
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.observations.shared.both_radii import BothRadii
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.runtime.errors import BadValue, NotEnough


@dataclass(frozen=True, kw_only=True)
class CommonNegativeRadii(BothRadii):
    """R_CL(x⁺, x⁻) of each image x⁺ against the last images x⁻ of the population, the same for all: [M, negatives].

    Attributes:
        negatives: how many of the last images; no image may be both, so the audit attacks at most the others.

    Source: Wang & Liu (2023), Theorem 18.
    """

    negatives: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.negatives < 1:
            raise BadValue(f"common_negative_radii: expected negatives >= 1, got {self.negatives}")

    @property
    @override
    def title(self) -> str:
        return f"radii against {self.negatives} common negatives: {part_name(self.certifier)}"

    @property
    def margins_each(self) -> int:
        """One for each negative."""
        return self.negatives

    def compare(self, shard: Shard) -> tuple[Margin, Int[Tensor, "batch rows"]]:
        """Return the margins against the common negatives."""
        clean = clean_of(shard)
        # The last images, because audits attack the first ones: no image is its own negative
        first = len(clean) - self.negatives
        if int(shard.positions.max()) >= first:
            raise NotEnough(
                f"common_negative_radii: expected {self.negatives} images that are not attacked, got "
                f"{len(clean) - int(shard.positions.max()) - 1}; attack fewer, or use more images"
            )
        places = torch.arange(first, len(clean)).expand(len(shard.positions), -1)
        return Cosine().between(clean[shard.positions], clean[places.to(clean.device)]), places
