"""An encoder of the catalogue."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from benchmarks.hiding.family import Family

HONEST = "honest"
KINDS = (
    "saturating input", "rounded input", "filtered input", "curved input", "lying gradient", "watches who asks",
    "remembers", "masked inside", "masked output", "random",
)  # fmt: skip
"""Ways to hide."""

SATURATING, ROUNDED, FILTERED, CURVED, LYING, WATCHING, REMEMBERING, INSIDE, OUTPUT, RANDOM = KINDS


@dataclass(frozen=True)
class Entry:
    """A way to hide, or an honest encoder.

    Attributes:
        kind: what hides; "honest" for what does not.
        name: what it is called among those of its family.
        make: the network, of pixels.
        judged: what its numbers are held against, where that is another network than `make` gives; None: that one.
        random: whether passes differ, so that there is no truth.
    """

    kind: str
    name: str
    make: Callable[[Family], nn.Module]
    judged: Callable[[Family], nn.Module] | None = None
    random: bool = False

    @property
    def hides(self) -> bool:
        """Whether it tries to."""
        return self.kind != HONEST
