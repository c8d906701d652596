"""What the certifiers have in common that bound the ranges inside a network layer by layer: how, and how long."""

from dataclasses import dataclass
from typing import Literal

from holdfast.core import registry
from holdfast.numerics.bounds.effort import Limit
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.runtime.checked import Positive
from holdfast.runtime.errors import Conflict


@dataclass(frozen=True, kw_only=True)
class ByLayers(Propagation):
    """A certifier that bounds every value inside the network that matters, within a budget.

    Attributes:
        minutes: that the ranges inside may take for one bound of one image, on one core of usual speed. They are
            counted as work, not by a clock, so the result is the same on every machine; see `Limit`.
        beyond: what happens where that is too little: "refuse" (not certified, before anything is done), or
            "intervals": interval arithmetic for the layers that do not fit, a looser bound.
        intervals: whether the ranges inside and the bound are met with those of interval arithmetic; without, they are
            those of CROWN as published.
    """

    minutes: Positive = 10.0
    beyond: Literal["refuse", "intervals"] = "refuse"
    intervals: bool = True

    def __post_init__(self) -> None:
        if not self.intervals and self.beyond == "intervals":
            raise Conflict(
                f"{registry.part_name(self)}: expected beyond = refuse with intervals = false, got beyond = intervals: "
                "CROWN as published meets nothing with interval arithmetic; leave out one of them"
            )

    @property
    def limit(self) -> Limit:
        """How much work the ranges inside may be."""
        return Limit(self.minutes, self.beyond)
