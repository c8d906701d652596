"""A pretended GPU: tensors that compute on the CPU, but must not be mixed with its tensors, as those of a GPU must not.

Torch without CUDA cannot hold a tensor on a device that it does not have. These tensors stand on torch's device "meta",
say "cuda:0" when asked, and hold a tensor of the CPU, on which every operation runs. So whatever is written for a GPU
runs here with true values, and

- an operation on tensors of both sides raises, as CUDA does (numbers without dimensions, copies and indices excepted);
- what CUDA has no kernel for raises: products of integers, generators of the CPU, memory read by NumPy;
- operations for which the host would wait are counted, see `waits`.

It says nothing about time, nor about how a GPU rounds.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # what it imports must not meet what is pretended
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from benchmarks.gpu.waits import PINNED, wait

CUDA, META, CPU = torch.device("cuda:0"), torch.device("meta"), torch.device("cpu")


class Generator(torch.Generator):
    """Random numbers of either side; those of the device are not the ones that a GPU would draw.

    Attributes:
        on_device: which side.
    """

    on_device: bool

    def __new__(cls, device: Any = "cpu") -> "Generator":
        """Make a generator, which draws on the CPU."""
        generator = super().__new__(cls)
        generator.on_device = torch.device(device).type != "cpu"
        return generator


class MixedDevices(RuntimeError):
    """An operation that a GPU would refuse."""


class OnDevice(Tensor):
    """A tensor of the pretended device.

    Attributes:
        held: its values, on the CPU.
    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        """Wrap a tensor of the CPU."""
        wrapper: Any = torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=META
        )
        wrapper.held = held
        return wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation where no mode is active: in a backward pass."""
        return _run(func, args, kwargs or {})


def _here(tensor: Tensor) -> bool:
    return isinstance(tensor, OnDevice)


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operation on the values that its tensors hold, and put what comes out where it belongs."""
    leaves: list[Any] = []
    _each(leaves.append, [*args, *kwargs.values()])
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    device = next((leaf for leaf in leaves if isinstance(leaf, torch.device)), None)
    _check(func, args, tensors)
    held = {id(tensor.held): tensor for tensor in tensors if isinstance(tensor, OnDevice)}

    def inside(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return CPU
        return leaf.held if isinstance(leaf, OnDevice) else leaf

    out = func(*_each(inside, args), **{name: _each(inside, value) for name, value in kwargs.items()})
    # a tensor is where it was told to be, or where its arguments are
    wrapped = device.type != "cpu" if device is not None else any(map(_here, tensors))
    given = {id(tensor) for tensor in tensors}

    def outside(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or id(leaf) in given:
            return leaf
        if id(leaf) in held:  # changed in place
            return held[id(leaf)]
        return OnDevice(leaf) if wrapped else leaf

    for tensor in held.values():
        if tensor.shape != tensor.held.shape or tensor.stride() != tensor.held.stride():
            raise NotImplementedError(f"the pretended device cannot follow {func}, which changes a shape in place")
    return _each(outside, out)


def _each(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value with every leaf changed; torch's own way costs more than most operations."""
    if isinstance(value, (list, tuple)):
        return type(value)([_each(change, part) for part in value])
    return change(value)


def _check(func: Any, args: tuple[Any, ...], tensors: list[Tensor]) -> None:
    """Refuse what CUDA refuses."""
    name = func._schema.name.partition("::")[2]
    here = [_here(tensor) for tensor in tensors]
    if not any(here):
        return
    if name in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot", "addmv") and not tensors[0].is_floating_point():
        raise MixedDevices(f"{name}: CUDA has no product of {tensors[0].dtype}")
    if name in ("copy_", "_to_copy") or all(here):
        return
    if name in ("index", "index_put", "index_put_", "_index_put_impl_") and here[0]:
        strange = [tensor for tensor in args[2:3] if isinstance(tensor, Tensor) and not _here(tensor)]
    else:
        strange = [tensor for tensor in tensors if not _here(tensor)]
    if any(tensor.ndim for tensor in strange):
        sides = ", ".join(f"{'device' if _here(t) else 'CPU'} {list(t.shape)}" for t in tensors)
        raise MixedDevices(f"{name}: expected all tensors on one device, got {sides}")


_DEVICE, _IS_CUDA, _IS_META = (getattr(Tensor, name).__get__ for name in ("device", "is_cuda", "is_meta"))

_SET_DATA = Tensor.data.__set__  # pyright: ignore[reportAttributeAccessIssue]


class _Functions(TorchFunctionMode):
    """What torch answers before an operation is dispatched: where a tensor is, and where one shall be made."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        if func == _DEVICE:
            device = func(*args)
            return CUDA if device.type == "meta" else device
        if func in (_IS_CUDA, _IS_META):
            return func == _IS_CUDA and _IS_META(args[0])
        if func == _SET_DATA and _here(args[0]):
            args[0].held = args[1].held.detach()
        args, kwargs = tuple(map(_stand_in, args)), {name: _stand_in(value) for name, value in kwargs.items()}
        if isinstance(generator := kwargs.get("generator"), Generator):
            there = kwargs["device"] == META if kwargs.get("device") is not None else bool(args) and _here(args[0])
            if generator.on_device != there:
                raise MixedDevices(f"{func.__name__}: expected a generator of the side where numbers are drawn")
        if func is Tensor.pin_memory:
            if _here(args[0]):
                raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
            pinned = args[0].clone()
            setattr(pinned, PINNED, True)
            return pinned
        if func is Tensor.cuda:
            return args[0].to(META, **kwargs)
        if func in (Tensor.numpy, Tensor.__array__) and _here(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")
        if func is Tensor.tolist and _here(args[0]):
            return args[0].cpu().tolist()
        if func in (Tensor.__getitem__, Tensor.__setitem__) and _here(args[0]):
            numbers = [torch.tensor(v, dtype=args[0].dtype) if isinstance(v, (int, float)) else v for v in args[2:]]
            args = (args[0], _indices(args[1]), *numbers)  # a number stays with the host, as it does on CUDA
        makes = func in (torch.tensor, torch.as_tensor, torch.asarray) and not isinstance(args[0], Tensor)
        if makes and kwargs.get("device") == META:
            return func(*args, **kwargs | {"device": "cpu"}).to(META)
        if func == Tensor.new_tensor and _here(args[0]) and "device" not in kwargs:
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(META)
        return func(*args, **kwargs)


def _indices(index: Any) -> Any:
    """Return an index whose lists and arrays are copied to the device, as torch does."""
    if isinstance(index, tuple):
        return tuple(map(_indices, index))
    return torch.as_tensor(index).to(META) if isinstance(index, (list, np.ndarray)) else index


def _stand_in(leaf: Any) -> Any:
    """Return the device that stands in for CUDA, where an argument names that."""
    if isinstance(leaf, torch.device) and leaf.type == "cuda":
        return META
    return META if isinstance(leaf, str) and leaf.partition(":")[0] == "cuda" else leaf


class Pretended(TorchDispatchMode):
    """The device: what runs inside may make tensors on "cuda".

    Attributes:
        kinds: how often each kind of wait was met.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = wait(func, args, kwargs or {}, _here)
        if kind is not None:
            self.kinds[kind] += 1
        return _run(func, args, kwargs or {})


class _Event:
    """A moment, which is that of the host."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._moment = 0.0

    def record(self) -> None:
        self._moment = time.perf_counter()

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "_Event") -> float:
        return 1000 * (end._moment - self._moment)


def _exported(export: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's export, which runs beside what is pretended: networks are traced on the CPU."""

    def call(*args: Any, **named: Any) -> Any:
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            return export(*args, **named)

    return call


@contextmanager
def pretended_gpu(*, trains: bool = False) -> Iterator[Pretended]:
    """Let torch have one GPU, which is pretended.

    Args:
        trains: whether parameters stay the objects that an optimiser holds when a network is moved there, as on a GPU.
    """
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_rng_state": lambda device=0: torch.get_rng_state(),  # one generator draws for both sides
        "set_rng_state": lambda state, device=0: None,
        "manual_seed": lambda seed: None,
        "device": lambda device: nullcontext(),
        "max_memory_allocated": lambda device=0: 2**30,
        "get_device_properties": lambda device=0: SimpleNamespace(
            name="pretended", total_memory=2**36, major=9, minor=0
        ),
        "set_per_process_memory_fraction": lambda fraction, device=0: None,
        "empty_cache": lambda: None,
        "Event": _Event,
        "reset_peak_memory_stats": lambda device=0: None,
        "synchronize": lambda device=0: None,
        "is_current_stream_capturing": lambda: False,  # optimisers ask
    }
    with ExitStack() as stack:
        if trains:
            torch.__future__.set_swap_module_params_on_conversion(True)
            stack.callback(torch.__future__.set_swap_module_params_on_conversion, False)
        stack.enter_context(mock.patch.object(torch.export, "export", _exported(torch.export.export)))
        stack.enter_context(mock.patch.object(torch, "Generator", Generator))
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        pretended = stack.enter_context(Pretended())
        stack.enter_context(_Functions())
        yield pretended
