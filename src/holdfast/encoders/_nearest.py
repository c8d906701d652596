"""The error for an unknown name where the list of known ones is too long to print."""

from collections.abc import Iterable
from difflib import get_close_matches

from holdfast.errors import HoldfastError, unknown


def nearest(what: str, name: str, known: Iterable[str]) -> HoldfastError:
    """Return "unknown ..., did you mean ...?" with the whole list up to 20 names, else the eight nearest."""
    names = list(known)
    if len(names) <= 20:
        return unknown(what, name, names)
    close = get_close_matches(name, names, n=8, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return HoldfastError(f"unknown {what} {name!r}; {hint}some of {len(names)}: {', '.join(close or names[:8])}")
