"""The one error that users meet, and the sentence for a name that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


class HoldfastError(Exception):
    """A request that cannot be answered: what was expected, what came, and what to do, in one line."""


def unknown(what: str, name: str, known: Iterable[str]) -> HoldfastError:
    """Return the error for an unknown name: "did you mean", then the list."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return HoldfastError(f"unknown {what} {name!r}; {hint}known: {', '.join(names)}")


def missing(package: str, extra: str, what: str) -> HoldfastError:
    """Return the error for an optional package that is not installed."""
    return HoldfastError(f"{what} needs the package {package!r}; install it with: pip install 'holdfast[{extra}]'")
