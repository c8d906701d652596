"""What a part is invariant to: changes of the representation that change none of its numbers.

Encoders f and T∘f that no comparison may tell apart get the same numbers from the same audit, up to rounding. A part
says so itself (`invariant`), or what it compares by does: its divergence, failure, objective or probe.
"""

from dataclasses import fields
from typing import Any

from holdfast.runtime.errors import BadValue

CHANGES = ("translation", "rotation", "scaling", "permutation", "constants")
"""f + c, Q f, s f, coordinates in another order, further coordinates that are the same for all images."""

EVERY = frozenset(CHANGES)
"""All that changes no ratio of Euclidean distances."""

AXES = EVERY - {"rotation"}
"""What is said coordinate by coordinate."""

DIRECTIONS = frozenset({"rotation", "scaling", "permutation"})
"""What changes no angle between representations: these are seen from the origin."""

LENGTHS = frozenset({"scaling"})
"""Where coordinates have a meaning of their own: logits, the space of captions."""

NOTHING: frozenset[str] = frozenset()


def invariances(part: Any) -> frozenset[str] | None:
    """Return the changes of representations that change no number of a part; None where nothing of it says so.

    Args:
        part: a measure, check, failure, objective, probe or divergence.

    Raises:
        HoldfastError: a change that is none of `CHANGES`.

    Example:
        >>> from holdfast.parts.objectives.untargeted import Untargeted
        >>> sorted(invariances(Untargeted("cosine")))
        ['permutation', 'rotation', 'scaling']
    """
    if part.invariant is not None:
        if strange := sorted(part.invariant - EVERY):
            raise BadValue(f"{type(part).__name__}.invariant: expected some of {', '.join(CHANGES)}, got {strange}")
        return part.invariant
    found = []
    for field in fields(part):
        value = getattr(part, field.name)
        # Of an ensemble, say, each member
        for member in value if isinstance(value, tuple) else (value,):
            if hasattr(member, "invariant"):
                found.append(invariances(member))
    said = [changes for changes in found if changes is not None]
    # What changes one of them changes the whole
    return frozenset.intersection(*said) if said else None
