"""What engines share: how work is sent to other processes, and what is said where that fails."""

import pickle
from collections.abc import Callable
from typing import Any

from holdfast.core import registry
from holdfast.core.engine import Work
from holdfast.runtime.errors import HoldfastError, first_line

STARTS = 3
"""How many workers may end, one after the other, before they could work."""


def packed(make: Callable[[], Work], dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Return what makes a worker's work as bytes, and which files of parts it must run before; see `unpacked`.

    Raises:
        HoldfastError: something of it cannot be sent to another process.
    """
    try:
        return pickle.dumps((registry.paths(), dumps(make)))
    except Exception as error:  # whatever a user's module raises
        raise HoldfastError(
            f"expected encoders and images that other processes can open, got some that cannot be sent to them "
            f"({first_line(error)}); name them by specs (module:PACKAGE.FUNCTION, a folder), or leave --workers out"
        ) from error


def portable(error: Exception) -> Exception:
    """Return an error that can be sent to another process and says the same."""
    try:
        again = pickle.loads(pickle.dumps(error))
        return error if str(again) == str(error) else HoldfastError(str(error))
    except Exception:
        return HoldfastError(f"{type(error).__name__}: {first_line(error)}")


def unpacked(work: bytes) -> Work:
    """Return a worker's work, made in its process, which knows the user's own parts first."""
    paths, make = pickle.loads(work)
    for path in paths:
        registry.load(path)
    return pickle.loads(make)()


def unready(worker: str, error: Exception) -> HoldfastError:
    """Return the error of a worker that cannot make its work."""
    if isinstance(error, HoldfastError):
        return error
    reason = f"{type(error).__name__}: {first_line(error)}"
    return HoldfastError(
        f"expected {worker} to open what this process has opened, got {reason}; classes of encoders and images must be "
        "in modules that workers can import"
    )
