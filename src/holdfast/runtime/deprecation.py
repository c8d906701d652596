"""What will be removed is said first: what to write instead, and in which version the old way stops working.

`DEPRECATED` is the one list. Code that meets an old name calls `warn_deprecated`, and functions take old names of
arguments through `renamed`; commands print each warning once, as a line on stderr (`deprecations_to`).
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from holdfast.runtime.errors import HoldfastError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Deprecation:
    """What replaces a deprecated name.

    Attributes:
        instead: what to write instead: "images=".
        removed_in: the first version without the old name: "0.3".
    """

    instead: str
    removed_in: str


_AUDITING = ("audit", "monitor", "look", "HoldfastCallback")

DEPRECATED: Mapping[str, Deprecation] = {
    **{f"{name}(size=)": Deprecation("images=", "0.2") for name in (*_AUDITING, "open_images")},
    **{f"{name}(images=DATA)": Deprecation("data=", "0.2") for name in _AUDITING},
    "--compile": Deprecation("--compiled", "0.2"),
    "harden(images=)": Deprecation("data=", "0.2"),
    "make_plan(profile_name=)": Deprecation("profile=", "0.2"),
}
"""What is deprecated, as users write it: "audit(size=)", "--old-option", "the key 'old' of a plan"."""


class HoldfastDeprecationWarning(DeprecationWarning):
    """A deprecated name of Holdfast was used."""


def warn_deprecated(name: str) -> None:
    """Warn that a name of `DEPRECATED` is deprecated; the warning points at the code that called Holdfast.

    Raises:
        KeyError: a name that `DEPRECATED` does not list.
    """
    replacement = DEPRECATED[name]
    warnings.warn(
        f"{name} is deprecated and will be removed in Holdfast {replacement.removed_in}; write {replacement.instead}",
        HoldfastDeprecationWarning,
        stacklevel=_frames_of_holdfast() + 1,
    )


def renamed(**arguments: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for a function whose arguments have new names: the old ones still work, and warn.

    Stands above `checked`, which would refuse the old names. `DEPRECATED` must list each as "function(old=)". An old
    name that has a new meaning, that of a number, is an old one where its value is no number, and the argument by its
    new name is missing; it is listed as "function(old=NEW)".

        @renamed(size="images_count")
        @checked
        def audit(..., *, images_count: int | None = None): ...

    Args:
        arguments: the new name for each old one, in the order in which they are replaced.

    Raises:
        HoldfastError: (the function) the old and the new name at once.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        title, takes = function.__qualname__.removesuffix(".__init__"), list(inspect.signature(function).parameters)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            for old, new in arguments.items():
                if old not in kwargs:
                    continue
                given = new in kwargs or new in takes[: len(args)]
                if old in takes and (given or _number(kwargs[old])):
                    continue
                if given:
                    raise HoldfastError(f"{title}: expected {new}, got {old}, its old name, as well; leave out {old}")
                warn_deprecated(f"{title}({old}={new.upper() if old in takes else ''})")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


@contextmanager
def deprecations_to(say: Callable[[str], object]) -> Iterator[None]:
    """Pass each deprecation of Holdfast to a function, once, instead of warning; for commands."""
    said = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", HoldfastDeprecationWarning)
        show = warnings.showwarning

        def pass_on(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if not issubclass(category, HoldfastDeprecationWarning):
                show(message, category, *where, **more)
            elif str(message) not in said:
                said.add(str(message))
                say(str(message))

        warnings.showwarning = pass_on
        yield


def _number(value: object) -> bool:
    """Whether a value is a single number, of NumPy or torch too, or None."""
    return value is None or isinstance(value, (int, float)) or getattr(value, "ndim", None) == 0


def _frames_of_holdfast() -> int:
    """Return how many frames of Holdfast are above whoever called it, the caller of this function among them."""
    count, frame = 0, sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "holdfast":
        count, frame = count + 1, frame.f_back
    return count
