"""Divergences as arguments: each may be given by its name, or as a function."""

import inspect
from functools import partial
from typing import Annotated, Any, TypeVar

from holdfast.core import registry
from holdfast.core.function_part import name_function
from holdfast.core.own_divergence import UNNAMED, divergence
from holdfast.numerics.geometry.divergence import Divergence
from holdfast.runtime.checked import Reads
from holdfast.runtime.errors import BadValue, unknown

Kind = TypeVar("Kind", bound=Divergence)


def read_divergence(value: Any) -> Any:
    """Return the divergence that a name says, or a function is, see `divergence`; anything else as it is.

    Raises:
        HoldfastError: a name that nobody knows.

    Example:
        >>> read_divergence("l1")(torch.ones(2), torch.zeros(2)).item()
        2.0
    """
    if isinstance(value, str):
        return registry.part("divergences", value)
    # Classes can be called, too, but are no functions of vectors
    if not inspect.isroutine(value) and not isinstance(value, partial):
        return value
    # The same function again is the same part
    name = name_function(value, None, UNNAMED)
    known = registry.find("divergences", name) if name in registry.names("divergences") else None
    return known() if known is not None and getattr(known, "function", None) is value else divergence(value)


AnyDivergence = Annotated[Divergence, Reads(read_divergence)]
"""A divergence, its name, or a function."""


def require(divergence: Divergence, kind: type[Kind], what: str) -> Kind:
    """Return a divergence, which must be of a kind, such as `LinearDivergence`.

    Args:
        divergence: any.
        kind: the class.
        what: what it is for, "divergence of patches".

    Raises:
        HoldfastError: one that is not; it says which are.
    """
    if not isinstance(divergence, kind):
        fit = [name for name in registry.names("divergences") if issubclass(registry.find("divergences", name), kind)]
        raise unknown(what, str(divergence), fit)
    return divergence


def require_distance(divergence: Divergence, what: str) -> None:
    """Refuse a divergence that may be below 0, where distances are divided by each other.

    Args:
        divergence: any.
        what: what it is for.

    Raises:
        HoldfastError: a signed one; it says which are not.
    """
    if divergence.signed:
        fit = [name for name in registry.names("divergences") if not registry.find("divergences", name).signed]
        raise BadValue(
            f"{what}: expected a divergence that is never below 0, got {divergence}; known: {', '.join(fit)}"
        )
