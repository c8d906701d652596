"""A score: a number with its interval, and what the checks leave of it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Score:
    """A number with its interval.

    No interval has zero width: ends that agree to twelve digits are none, since no sample tells a number exactly.

    Attributes:
        value: the estimate; None where it is not defined (say why in `note`).
        low: lower end of the interval.
        high: upper end of the interval.
        n: independent units behind it (images, or pairs).
        interval: what kind of interval it is and what it is conditional on.
        confidence: its level.
        note: anything a reader must know, such as rows left out.
        unit: of this score, where it is not its measure's.
        better: which direction is more robust, where it is not its measure's; "neither" where none is.
        checks: names of the checks that it depends on.
        standing: "sound"; or, where one of them failed, what the number still is: a bound that the truth is "at least"
            or "at most", or "void", no number at all.
        because: names of the checks that say so.
        if_weak: its standing where a search that it depends on was too weak; None where it depends on none.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    interval: str
    confidence: float = 0.95
    note: str = ""
    unit: str = ""
    better: Literal["", "lower", "higher", "neither"] = ""
    checks: tuple[str, ...] = ()
    standing: Literal["sound", "at least", "at most", "void"] = "sound"
    because: tuple[str, ...] = ()
    if_weak: Literal["at least", "at most", "void"] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.n < 2**63:
            raise ValueError(f"expected a count of independent units, got n = {self.n}")
        if self.low is None or self.high is None or abs(self.high - self.low) > 1e-12 * max(abs(self.low), 1e-300):
            return
        object.__setattr__(self, "low", None)  # the dataclass is frozen
        object.__setattr__(self, "high", None)
        words = "both ends of its interval were one number: no interval"
        object.__setattr__(self, "note", "; ".join(filter(None, [self.note, words])))
