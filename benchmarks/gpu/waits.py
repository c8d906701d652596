"""Which of torch's operations make the host wait for the device, and how many a piece of work makes.

Kernels run behind the host that starts them. An operation whose result the host must know (a number, how many rows a
mask picks), or that copies from memory a device cannot read by itself, stops the host until the device has caught up;
in a loop the device then stands idle while the next kernels are prepared.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NUMBER, ROWS, SOLVER, DOWN, UP = "number", "rows", "solver", "copy to host", "copy to device"
"""Kinds of waits: a number is read; a shape depends on values; a solver looks whether it succeeded; pageable copies."""

_OF_OPERATION = {
    "_local_scalar_dense": NUMBER,
    "equal": NUMBER,
    "is_nonzero": NUMBER,
    "nonzero": ROWS,
    "masked_select": ROWS,
    "_unique": ROWS,
    "_unique2": ROWS,
    "unique_dim": ROWS,
    "unique_consecutive": ROWS,
    "unique_dim_consecutive": ROWS,
    "bincount": ROWS,
    "_linalg_check_errors": SOLVER,
    "_linalg_eigh": SOLVER,
    "_linalg_svd": SOLVER,
    "linalg_eig": SOLVER,
}
"""Operations that always wait; see torch's `torch.cuda.set_sync_debug_mode` and the notes on CUDA semantics."""

OnDevice = Callable[[Tensor], bool]


def wait(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], on_device: OnDevice) -> str | None:
    """Return the kind of wait that an operation of ATen is for the host; None: the host goes on at once.

    Args:
        func: the operation, as a dispatch mode is given it.
        args: its arguments.
        kwargs: those by name.
        on_device: whether a tensor lies on the device.
    """
    flat = [part for value in (*args, *kwargs.values()) for part in (value if isinstance(value, list) else [value])]
    tensors = [value for value in flat if isinstance(value, Tensor)]
    here = [on_device(tensor) for tensor in tensors]
    name = func._schema.name.partition("::")[2]
    if name == "copy_":
        return _copied(from_device=here[1], to_device=here[0], source=tensors[1], unheld=_flag(args, kwargs, 2))
    if name == "_to_copy":
        device = kwargs.get("device")
        to_device = here[0] if device is None else torch.device(device).type != "cpu"
        return _copied(from_device=here[0], to_device=to_device, source=tensors[0], unheld=kwargs.get("non_blocking"))
    if not any(here):
        return None
    if name in ("index", "index_put", "index_put_", "_index_put_impl_"):
        return _indexed(name, args, on_device)
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return ROWS
    return _OF_OPERATION.get(name)


def _flag(args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> bool:
    return bool(args[place] if len(args) > place else kwargs.get("non_blocking", False))


def _copied(*, from_device: bool, to_device: bool, source: Tensor, unheld: bool | None) -> str | None:
    """Return the kind of wait of a copy; one from pinned memory that need not block is none."""
    if from_device == to_device:
        return None
    if to_device:
        return None if source.numel() == 0 or (unheld and is_pinned(source)) else UP
    return DOWN


def _indexed(name: str, args: tuple[Any, ...], on_device: OnDevice) -> str | None:
    """Return the kind of wait of x[i] or x[i] = y: for a mask its rows are counted, an index of the host is copied."""
    indices = [index for index in args[1] if index is not None]
    if on_device(args[0]) and not all(map(on_device, indices)):
        return UP
    masks = [index for index in indices if index.dtype in (torch.bool, torch.uint8)]
    if not masks:
        return None
    if name != "index" and len(indices) == 1 and args[2].numel() == 1:
        return NUMBER if on_device(args[2]) else None  # x[mask] = 0 fills, and reads the number
    return ROWS


PINNED = "pretends_pinned"
"""Attribute of tensors that the pretended device has pinned."""


def is_pinned(tensor: Tensor) -> bool:
    """Whether a tensor of the host lies in memory from which the device copies by itself."""
    return hasattr(tensor, PINNED) or (torch.cuda.is_initialized() and tensor.is_pinned())


class Waits(TorchDispatchMode):
    """Counts the waits of what runs inside, by kind, on a real device.

    Attributes:
        kinds: how often each kind of wait was met.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._type = device.type
        self.kinds: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = wait(func, args, kwargs or {}, lambda tensor: tensor.device.type == self._type)
        if kind is not None:
            self.kinds[kind] += 1
        return func(*args, **(kwargs or {}))
