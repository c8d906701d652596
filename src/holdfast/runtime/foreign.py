"""The one way in which code that is not Holdfast's is called: modules, factories, passes, data sets, own parts."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.runtime.errors import Failed, HoldfastError, first_line

if TYPE_CHECKING:  # the command line begins without torch
    from torch import Tensor


class Ended(SystemExit):
    """The process is told to end from outside, by a signal; foreign code that it meets is not to blame."""


class Turn:
    """The right to call code that is not made for several threads; one thread has it, and may take it again.

    It is one for all such code: two datasets may read through one file handle, and an own measure may read a dataset.
    """

    def __init__(self) -> None:
        # No RLock, for `release` gives up all levels at once
        self._lock, self._owner, self._depth = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        # Only this thread writes its own number, so that the comparison needs no lock
        if self._owner != threading.get_ident():
            self._lock.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            # Before the lock is free: the next owner writes its number at once
            self._owner = 0
            self._lock.release()

    @contextmanager
    def release(self) -> Iterator[None]:
        """Wait inside for other threads, which may need the turn that this one has."""
        if self._owner != threading.get_ident():
            yield
            return
        depth, self._depth, self._owner = self._depth, 0, 0
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()
            self._owner, self._depth = threading.get_ident(), depth


TURN = Turn()
"""That of this process."""

if hasattr(os, "register_at_fork"):  # a thread that has it is not there after a fork, so that nobody would give it back
    os.register_at_fork(after_in_child=TURN.__init__)


WIDTH, ODD = 1021, 0x9E3779B97F4A7C1 | 1
"""Values in a row of the table that `bits` sums up, a prime; and what spreads the sums over 64 bits."""


@contextmanager
def foreign(code: str, doing: str, *, wrap: bool = False, alone: bool = False) -> Iterator[None]:
    """Call foreign code inside; what would end the process becomes an error of that code.

    `sys.exit`, and whatever else is no `Exception`, would pass every `except Exception` and end an audit with the
    status that the code chooses. Ctrl-C goes through, and so does `Ended`.
    """
    try:
        with TURN if alone else nullcontext():
            yield
    except (HoldfastError, KeyboardInterrupt, Ended):
        raise
    except SystemExit as error:
        advice = (
            "move its script part under `if __name__ == '__main__'`"
            if doing == "imported"
            else "let it return, or raise an exception"
        )
        raise Failed(f"{code} called sys.exit({error.code!r}) while it was {doing}; {advice}") from error
    except Exception as error:
        if not wrap:
            raise
        raise Failed(f"{code}, while it was {doing}: {type(error).__name__}: {first_line(error)}") from error
    except BaseException as error:
        raise Failed(
            f"{code} raised {type(error).__name__} while it was {doing}, which is not an Exception; raise one instead"
        ) from error


@contextmanager
def forbid_mutation(code: str, *tensors: "Tensor | None", large: "Tensor | None" = None) -> Iterator[None]:
    """Call foreign code inside that reads tensors and must leave them as they are."""
    # A large tensor tells by torch's counter of writes, which costs no pass but misses those through `.data`
    before, version = [bits(tensor) for tensor in tensors if tensor is not None], _version(large)
    # No `finally`: where the code fails, that is the error
    yield
    if [bits(tensor) for tensor in tensors if tensor is not None] != before or _version(large) != version:
        raise Failed(f"{code} changes its input in place; let it work on a copy: x = x.clone()")


def _version(tensor: "Tensor | None") -> int:
    return 0 if tensor is None or tensor.is_inference() else tensor._version


def bits(tensor: "Tensor") -> int:
    """Return a digest of a tensor's bits that changes with its values and their places, however they were changed."""
    import torch

    if tensor.layout != torch.strided or tensor.is_quantized or tensor.element_size() > 8:
        return 0  # nothing to see through; such tensors have no plain bits
    # As whole numbers of the same width, whose sum does not round; NaN counts like other values
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    plain = tensor.detach().view(kinds[tensor.element_size()]).flatten()
    # One sum would not see values that change places: sums of rows and of columns do, each times a number of its own
    whole = len(plain) // WIDTH * WIDTH
    table = plain[:whole].view(-1, WIDTH)
    sums = torch.cat([table.sum(0, dtype=torch.int64), table.sum(1, dtype=torch.int64), plain[whole:].long()])
    return int((sums * (2 * torch.arange(len(sums), device=sums.device) + 1) * ODD).sum())  # modulo 2⁶⁴
