"""What checks cast on numbers, in words: a record has their names."""

from collections.abc import Iterable
from typing import Any

from holdfast.core import registry


def doubts_of(checks: Iterable[str]) -> list[str]:
    """Return what checks cast on numbers, by their names in a record, each once: "masking" is "misleading gradients".

    A check whose part is not here is called by its name.
    """
    # Outlines, since the parts themselves would bring torch to who only reads a record
    known = registry.names("checks")
    bases = [name.partition("[")[0] for name in checks]
    own: list[Any] = [registry.find_outline("checks", base) if base in known else None for base in bases]
    said = [getattr(part, "doubt", "") or base.replace("_", " ") for part, base in zip(own, bases, strict=True)]
    return list(dict.fromkeys(said))


def say_failed(checks: Iterable[str]) -> str:
    """Return "a check failed (misleading gradients)", or that several did, by their names in a record.

    Example:
        >>> say_failed(["masking[radius=0.1]", "masking[radius=0.2]", "reach"])
        'checks failed (misleading gradients, steps too short)'
    """
    doubts = doubts_of(checks)
    return f"{'a check' if len(doubts) == 1 else 'checks'} failed ({', '.join(doubts)})"
