"""The network inside an encoder: taken out of what wraps it, copied, and frozen; or one line that says why not."""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from holdfast.runtime.errors import BadValue, Failed, Unsupported, first_line

Network = TypeVar("Network", bound=nn.Module)


def unwrap(network: nn.Module) -> nn.Module:
    """Return the network inside torch.compile, DataParallel and DistributedDataParallel: the same representations."""
    # Wrappers may be wrapped
    while True:
        if isinstance(network, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            network = network.module
        elif type(network).__name__ == "OptimizedModule":  # of torch._dynamo, which takes a second to import
            network = network.get_submodule("_orig_mod")
        else:
            return network


def freeze(network: nn.Module, name: str) -> nn.Module:
    """Return a network in eval mode, no parameter of which requires a gradient; it is changed itself."""
    check_network(network, name)
    try:
        network.eval()
    except Exception as error:  # whatever the user's own `train` raises
        raise Failed(
            f"encoder {name!r}: expected a network that can be put in eval mode, its eval() raises "
            f"{type(error).__name__}: {first_line(error)}; let train(False) of {type(network).__name__} return"
        ) from error
    for value in network.parameters():  # one by one: a ScriptModule has no requires_grad_ of its own
        value.requires_grad_(False)
    return network


def check_network(network: nn.Module, name: str) -> None:
    """Refuse a network whose weights have no values yet, or none that can be read."""
    if "_parameters" not in network.__dict__ and not isinstance(network, torch.jit.ScriptModule):
        call = f"{type(network).__name__}.__init__ never called super().__init__()"
        raise BadValue(f"encoder {name!r}: expected a torch module, {call}")
    for place, value in (*network.named_parameters(), *network.named_buffers()):
        if is_lazy(value):
            raise BadValue(
                f"encoder {name!r}: expected weights, {place} is lazy and has no shape yet; run the network once on a "
                "batch of images: network(images[:2])"
            )
        if value.is_meta:
            raise BadValue(
                f"encoder {name!r}: expected weights, {place} is on the device 'meta' and has no values; build the "
                "network on a CPU, or fill it: network.to_empty(device='cpu') and load_state_dict"
            )
        if value.layout != torch.strided:
            raise BadValue(
                f"encoder {name!r}: expected dense weights, {place} is {str(value.layout)[6:]}; write to_dense() of it"
            )


def tensors_of(network: nn.Module) -> list[tuple[str, Tensor]]:
    """Return weights and buffers with their names, as a state dict has them, in the order of the names."""
    # By name, for a state dict is in the order in which layers were made
    return [(name, value) for name, value in sorted(network.state_dict().items()) if isinstance(value, Tensor)]


def add_tensors(digest: "hashlib._Hash", network: nn.Module) -> None:
    """Add names, kinds and values of all weights and buffers to a digest."""
    for name, value in tensors_of(network):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        # As bytes: NumPy has no bfloat16
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def copy_of(network: Network) -> Network:
    """Return a copy of a network that shares nothing with it.

    What a forward pass has left in it, such as the weight that a weight norm computed, is copied without its history.

    Example:
        >>> network = nn.Linear(2, 1)
        >>> network.seen = network(torch.ones(1, 2))  # `copy.deepcopy` refuses it
        >>> bool(copy_of(network).seen == network.seen)
        True
    """
    return copy_sharing(network, {})


def copy_sharing(network: Network, shared: Mapping[int, Any]) -> Network:
    """Return a copy of a network that shares with it what stands here by its identity, see `copy_of`."""
    kind = type(network).__name__
    check_network(network, kind)
    special = [value for module in network.modules() for value in _special(vars(module), set())]
    # Tensors made in inference mode could never be trained
    with torch.inference_mode(False), torch.no_grad():
        # What stands for each object in the copy: tensors lose their history, modules of Python are shared
        memo = {id(value): value.detach().clone() if isinstance(value, Tensor) else value for value in special}
        try:
            return copy.deepcopy(network, memo | dict(shared))
        except Exception as error:  # whatever a user's module holds
            raise Unsupported(
                f"{kind} cannot be copied: {_culprit(network) or first_line(error)}; make it where it is used, give "
                f"{kind} a __deepcopy__, or write a function that builds it and give py:module:function"
            ) from error


def _special(value: Any, met: set[int]) -> Iterator[Tensor | ModuleType]:
    """Yield what `copy.deepcopy` refuses: tensors with a history, and modules of Python; in whatever holds them."""
    if isinstance(value, ModuleType) or (isinstance(value, Tensor) and not value.is_leaf):
        yield value
    closed = (Tensor, ModuleType, str, bytes, int, float, type, nn.Module)  # networks inside are walked by themselves
    if id(value) in met or isinstance(value, closed):  # containers may hold themselves
        return
    met.add(id(value))
    if isinstance(value, Mapping):
        inside: Any = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = value
    else:
        inside = vars(value).values() if type(value).__module__ != "builtins" and hasattr(value, "__dict__") else ()
    for item in list(inside):
        yield from _special(item, met)


def _culprit(network: nn.Module) -> str:
    """Return which attribute cannot be copied, innermost first, and why; "" where none alone is to blame."""
    own = ("_parameters", "_buffers", "_modules")
    for place, module in reversed(list(network.named_modules())):
        for key, value in vars(module).items():
            try:
                if key not in own:
                    copy.deepcopy(value)
            except Exception as error:  # whatever it holds
                return f"its attribute {'.'.join(filter(None, (place, key)))} ({first_line(error)})"
    return ""
