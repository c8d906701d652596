"""What a comparison of two encoders of one index is made of."""

from dataclasses import dataclass

from holdfast.config.part_syntax import part_table
from holdfast.core import Divergence, HoldfastError, registry
from holdfast.workflows.compare_index.request import IndexRequest

RATE = 1e-3
"""False positives that a threshold is set at where nobody says otherwise, a share of the pairs of different images."""


@dataclass(frozen=True)
class IndexPlan(IndexRequest):
    """What is compared, and how; without a rate and a threshold, the rate is `RATE`."""

    def __post_init__(self) -> None:
        if not self.compared_by.symmetric:
            raise HoldfastError(
                f"divergence: expected a symmetric one for pairs of images, got '{self.divergence}'; take l2, cosine "
                "or dot"
            )
        if self.images is not None and self.images < 3:
            raise HoldfastError(f"images: expected at least 3, for lists of neighbours, got {self.images}")
        if not self.k or len(set(self.k)) < len(self.k):
            raise HoldfastError(f"k: expected one number of neighbours or more, each once, got {list(self.k)}")
        if self.rate is not None and self.threshold is not None:
            raise HoldfastError(
                "rate and threshold: expected one of them, for each says what the other is, got both; leave one out"
            )
        if self.rate is not None and not 0 < self.rate < 1:
            raise HoldfastError(f"rate: expected a share of pairs in (0, 1), got {self.rate:g}")
        if self.threshold is not None and not self.threshold > 0 and not self.compared_by.signed:
            raise HoldfastError(f"threshold: expected a distance above 0, got {self.threshold:g}")

    @property
    def requirements(self) -> tuple[str, ...]:
        """What the new encoder must hold; of two builds of one network that they keep their neighbours, unless said."""
        return self.require or ((f"overlap@{max(self.k)} > 90 %",) if self.same else ())

    @property
    def compared_by(self) -> Divergence:
        """How representations are compared."""
        # A name may have fields, as on the command line
        return registry.build({"kind": "divergences", **part_table(self.divergence)})
