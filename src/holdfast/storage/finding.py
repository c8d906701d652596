"""Whether one encoder meets one requirement, typed: found by the gate, and where an index gets a new encoder."""

from holdfast.storage.entry import Entry


class Finding(Entry, frozen=True):
    """Whether one encoder meets one requirement.

    Attributes:
        requirement: as it was written.
        encoder: the encoder's name.
        met: whether it holds.
        compared: what was compared, for example "breakaway_risk, 20 steps, high end (the default for <)".
        found: what the record has there; None where there is nothing to compare.
        bound: what it was compared with.
        unit: of that number; "" for checks and counts.
        reason: why it does not hold; "" where it does.
        levels: whether the number is a size that is said in grey levels.
    """

    requirement: str
    encoder: str
    met: bool
    compared: str
    found: float | str | None
    bound: float | str
    unit: str = ""
    reason: str = ""
    levels: bool = False
