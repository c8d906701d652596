"""What the certifiers have in common that bound the ranges inside a network layer by layer: how much that may take."""

from dataclasses import dataclass
from typing import Literal

from holdfast.numerics.bounds.effort import Limit
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.runtime.checked import Positive


@dataclass(frozen=True, kw_only=True)
class ByLayers(Propagation):
    """A certifier that bounds every value inside the network that matters, within a budget.

    Attributes:
        minutes: that the ranges inside may take for one bound of one image, on one core of usual speed. They are
            counted as work, not by a clock, so the result is the same on every machine; see `Limit`.
        beyond: what happens where that is too little: "refuse" (not certified, before anything is done), or
            "intervals": interval arithmetic for the layers that do not fit, a looser bound.
    """

    minutes: Positive = 10.0
    beyond: Literal["refuse", "intervals"] = "refuse"

    @property
    def limit(self) -> Limit:
        """How much work the ranges inside may be."""
        return Limit(self.minutes, self.beyond)
