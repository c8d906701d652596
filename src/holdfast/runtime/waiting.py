"""When the host looks at what a device computed: every look makes it wait, so searches look once, at their end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Bool
from torch import Tensor

from holdfast.runtime.errors import HoldfastError

Judge = Callable[[int, int], HoldfastError]
"""(how many are not as expected, of how many) -> the error."""

_open: ContextVar[list[tuple[Tensor, int, Judge]] | None] = ContextVar("open", default=None)


def at_hand(tensor: Tensor) -> bool:
    """Whether the host may look at values without waiting for a device."""
    return tensor.device.type == "cpu"


def move_to(tensor: Tensor, to: Tensor | torch.device | str) -> Tensor:
    """Return a tensor of the host on a device; to CUDA from pinned memory, for whose copy the host need not wait."""
    tensor, device = (tensor.to(to.dtype), to.device) if isinstance(to, Tensor) else (tensor, torch.device(to))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def expect(fine: Bool[Tensor, "images"], error: Judge) -> None:
    """Raise where not all are fine: at once on a CPU, or where no work is open; else when that ends."""
    pending = _open.get()
    if pending is not None and not at_hand(fine):
        # Counted on the device, where nobody waits
        pending.append(((~fine).sum(), len(fine), error))
    elif not fine.all():
        raise error(int((~fine).sum()), len(fine))


@contextmanager
def defer_expectations() -> Iterator[None]:
    """Leave what is expected on a device open while the work inside runs, and judge it then, in order.

    An error inside may come from what is not finite, which is then said instead.
    """
    if _open.get() is not None:  # inner work is judged with the outer one
        yield
        return
    token = _open.set(pending := [])
    try:
        yield
    except Exception:
        _judge(pending)
        raise
    finally:
        _open.reset(token)
    _judge(pending)


def _judge(pending: list[tuple[Tensor, int, Judge]]) -> None:
    # One look for all
    counts = torch.stack([count for count, _, _ in pending]).tolist() if pending else []
    for count, (_, total, error) in zip(counts, pending, strict=True):
        if count:
            raise error(count, total)
