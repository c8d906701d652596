"""What failures at a copy-detection threshold have in common: the threshold, and at which images they happen."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import AnyDivergence, Failure, Observation, Shard, registry
from holdfast.core.divergence import require_distance
from holdfast.core.registry import part_name
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.failures.shared.population import bank_of
from holdfast.runtime.errors import BadValue, Missing

End = Literal["", "low", "high"]
"""The threshold itself, or that at an end of its rate's interval."""

ENDS: dict[End, str] = {"": "threshold", "low": "low", "high": "high"}
"""Columns of `match_threshold` that hold them."""


@dataclass(frozen=True)
class AtThreshold(Failure):
    """A failure that asks whether two representations are nearer than the threshold t of the measure `matching`.

    Attributes:
        rate: of false positives that t leaves, a share of the pairs of different images.
        divergence: how representations are compared.
        negatives: which pairs are different: "images", all that do not look alike, or "classes", those of two classes,
            which reads labels.
        end: "" for t itself; "low" or "high" for the threshold at that end of the 95 % interval of its rate.
    """

    rate: float = 1e-3
    divergence: AnyDivergence = L2()
    negatives: Literal["images", "classes"] = field(default="images", kw_only=True)
    end: End = field(default="", kw_only=True)

    of_one_way = True

    def __post_init__(self) -> None:
        require_distance(self.divergence, f"the failure {part_name(self)}")
        if not 0 < self.rate < 1:
            raise BadValue(
                f"the failure {part_name(self)}: rate: expected a share of pairs in (0, 1), got {self.rate:g}"
            )

    @property
    def needs_labels(self) -> bool:
        """Whether classes say which pairs are different."""
        return self.negatives == "classes"

    @property
    def provable(self) -> bool:
        """A ball around a representation is no half-space."""
        return False

    @property
    def has_pictures(self) -> bool:
        """Whether it asks at the threshold itself."""
        return not self.end

    @property
    def definition(self) -> str:
        """What it is to match."""
        return f"Two images match where they are nearer than a threshold with {100 * self.rate:g} % of false positives."

    @property
    def at(self) -> str:
        """The threshold in a few words."""
        return f"{100 * self.rate:g} % of false positives{f' ({self.end} end)' * bool(self.end)}, {self.divergence}"

    @property
    def threshold(self) -> Observation:
        """What tells t: the same for all images, so it is looked for once."""
        # By its name: observations are made of failures, so no failure can import one
        kind = registry.find("observations", "match_threshold")
        return kind(self.rate, self.divergence, self.negatives)

    @property
    def reads(self) -> tuple[Observation, ...]:
        """The threshold, and what that is made of."""
        return *self.threshold.prerequisites(), self.threshold

    def read_threshold(self, shard: Shard) -> float:
        """Return t.

        Raises:
            HoldfastError: a shard of no audit, which knows no threshold.
        """
        if shard.read is None:
            raise Missing(f"the failure {part_name(self)} reads a threshold of the images of an audit; got none")
        return float(shard.read(self.threshold)[ENDS[self.end]])

    def measure_population(
        self, shard: Shard
    ) -> tuple[Float[Tensor, "population dim"], Int[Tensor, "batch"], Int[Tensor, "batch"]]:
        """Return the representations of the population, where the images of the shard stand, and their partners.

        Partners are those of `matching`: the population is in a seeded random order, so neighbours are a random
        matching. The last of an odd number of images is its own.
        """
        bank, own = bank_of(shard, part_name(self))
        # The last bit of a position tells the two halves of a pair apart
        partner = own ^ 1
        return bank, own, torch.where(partner < len(bank), partner, own)
