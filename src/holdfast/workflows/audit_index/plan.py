"""What a look at one index is made of."""

from dataclasses import dataclass

from holdfast.config.part_syntax import part_table
from holdfast.core import Divergence, registry
from holdfast.runtime.errors import BadValue
from holdfast.workflows.audit_index.request import VectorRequest


@dataclass(frozen=True)
class VectorPlan(VectorRequest):
    """What is looked at, and how."""

    def __post_init__(self) -> None:
        # As compare-index asks it, by the same words
        if not self.metric.symmetric:
            raise BadValue(f"divergence: expected a symmetric one, got '{self.divergence}'; take cosine, l2 or dot")
        if self.k < 1:
            raise BadValue(f"k: expected at least 1 neighbour, got {self.k}")
        if not 0 < self.similar <= 1:
            raise BadValue(f"similar: expected a cosine in (0, 1], got {self.similar:g}")
        if not 0 < self.rate < 1:
            raise BadValue(f"rate: expected a share of pairs in (0, 1), got {self.rate:g}")
        # A list needs k others, and one more for who is left out
        if self.queries is not None and self.queries < self.k + 2:
            raise BadValue(
                f"queries: expected at least {self.k + 2}, for lists of {self.k} neighbours, got {self.queries}"
            )

    @property
    def metric(self) -> Divergence:
        """How vectors are compared."""
        return registry.build({"kind": "divergences", **part_table(self.divergence)})
