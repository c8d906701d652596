"""A network as it was before its first pass, to find out what it remembers of the images that it has seen."""

import copy
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.runtime.foreign import TURN
from holdfast.runtime.network import copy_sharing

LIBRARIES = ("torch", "torchvision", "timm", "transformers", "open_clip", "holdfast", "builtins")
"""Packages that keep no images beside a network."""

INSTALLED = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
"""Where modules are that are no user's."""

ENTRIES, LARGE = 1_000, 2**22
"""Most entries of a container that is kept, with those of containers in it, and of a tensor or an array: what will
remember images is empty, or has room for some, before the first one."""

DEPTH = 5
"""Containers in containers that are looked into: they may lead back to themselves."""

Container = list[Any] | dict[Any, Any] | set[Any] | bytearray | Tensor


class Unused:
    """A network before its first pass.

    It shares weights and buffers with the network, which `Encoder.fingerprint` watches; all else is copied, also what
    classes of the network and the modules that define them hold.

    Args:
        network: which has not run yet.

    Raises:
        HoldfastError: a network that cannot be copied.

    Example:
        >>> network = nn.Flatten()
        >>> network.seen = []
        >>> unused = Unused(network)
        >>> network.seen.append("an image")
        >>> with unused.running() as twin:
        ...     twin.seen
        []
    """

    def __init__(self, network: nn.Module):
        self._network = _twin(network)
        # Copied now, for it is not known which of them will be filled
        self._around = [(container, _copy_nested(container)) for container in _around(network)]

    @contextmanager
    def running(self) -> Iterator[nn.Module]:
        """Yield the network as it was, for one use; what it leaves around itself is taken away again.

        No other thread calls code of the user's meanwhile, which may read what is lent.
        """
        with TURN:
            before = [_copy_shallow(container) for container, _ in self._around]
            try:
                for container, unused in self._around:
                    _put(_copy_nested(unused), container)  # once more: this use may fill it
                yield _twin(self._network)
            finally:
                for (container, _), content in zip(self._around, before, strict=True):
                    _put(content, container)


def _twin(network: nn.Module) -> nn.Module:
    """Return a copy of a network that shares weights, buffers and other large tensors with it."""
    inside = (value for part in network.modules() for value in vars(part).values())
    # What is too large to begin as a memory of images is shared, see `LARGE`
    held = (value for value in inside if isinstance(value, (Tensor, np.ndarray)) and _entries(value) > LARGE)
    shared = {id(value): value for value in chain(network.parameters(), network.buffers(), held)}
    return copy_sharing(network, shared)


def _around(network: nn.Module) -> Iterator[Container]:
    """Yield the containers beside a network that its code can reach by name; each once.

    These are in its classes, in the modules that define them, in modules of the user that these import, and in what
    functions of the classes have closed over, or have as defaults.
    """
    # Base classes too, whose attributes all networks share
    kinds = {kind for part in network.modules() for kind in type(part).__mro__}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in LIBRARIES]
    modules = {sys.modules[kind.__module__] for kind in own if kind.__module__ in sys.modules}
    modules |= {value for module in modules for value in vars(module).values() if _is_the_users(value)}
    inside = [value for holder in (*own, *modules) for name, value in vars(holder).items() if not name.startswith("__")]
    inside += [value for part in network.modules() for value in vars(part).values()]
    reached = [value for function in inside if isinstance(function, FunctionType) for value in _of_function(function)]
    # Each once, by identity: equal containers are two
    for value in {id(value): value for value in (*inside, *reached)}.values():
        if isinstance(value, (list, dict, set, bytearray, Tensor)) and not _is_of(network, value):
            yield value


def _of_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function has closed over, and its defaults."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # empty
            yield cell.cell_contents
    yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _is_of(network: nn.Module, value: Container) -> bool:
    """Return whether a container is copied with the network, or too large to begin to remember."""
    if any(value is held for part in network.modules() for held in vars(part).values()):
        return True
    return _entries(value) > (LARGE if isinstance(value, Tensor) else ENTRIES)


def _entries(value: Any, depth: int = DEPTH) -> int:
    """Return how many numbers a tensor or an array has; of other containers, how many entries, with those in them."""
    if isinstance(value, (Tensor, np.ndarray)):
        return int(np.prod(value.shape))
    if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple, dict, set, bytearray)):
        return 0
    # Long enough already, or with nothing inside
    if len(value) > ENTRIES or isinstance(value, bytearray) or not depth:
        return len(value)
    return len(value) + sum(
        _entries(each, depth - 1) for each in (value.values() if isinstance(value, dict) else value)
    )


def _copy_nested(value: Any, depth: int = DEPTH) -> Any:
    """Return a copy of a container, of those in it, and of tensors and arrays; all else is shared."""
    if not depth:
        return value
    match value:
        case Tensor():
            return value.detach().clone()
        case np.ndarray() | bytearray():
            return value.copy()
        case dict():
            return {key: _copy_nested(each, depth - 1) for key, each in value.items()}
        case list():
            return [_copy_nested(each, depth - 1) for each in value]
        case set():
            return set(value)  # members of a set cannot change
    return value


def _is_the_users(value: Any) -> bool:
    """Return whether something is a module that no package brought."""
    file = getattr(value, "__file__", None) if isinstance(value, ModuleType) else None
    return file is not None and not file.startswith(INSTALLED) and value.__name__.partition(".")[0] not in LIBRARIES


def _copy_shallow(container: Container) -> Container:
    """Return the content of a container; what it holds is not copied."""
    return container.detach().clone() if isinstance(container, Tensor) else copy.copy(container)


def _put(content: Any, container: Any) -> None:
    """Give a container the content of another one."""
    match container:
        case Tensor():
            with torch.no_grad():
                # A buffer may have grown
                container.set_(content) if container.shape != content.shape else container.copy_(content)
        case dict() | set():
            # In place, for others hold the container itself
            container.clear()
            container.update(content)
        case _:
            container[:] = content
