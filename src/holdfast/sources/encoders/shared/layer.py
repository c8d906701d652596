"""Which part of a network is the representation: a layer, then a pooling to one vector per image."""

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from holdfast.core.representation import no_tensor
from holdfast.numerics.geometry.positions import Arrangement
from holdfast.runtime.errors import Mismatch, Unsupported, unknown
from holdfast.sources.encoders.shared.checkpoint import LAYERS

POOLS = {
    "avg": "mean over height and width of [B, C, H, W]",
    "cls": "first token of [B, T, D]",
    "mean": "mean over the tokens of [B, T, D], class token included",
    "flatten": "all values in a row",
    "none": "no pooling: the tokens of patches of [B, C, H, W] or [B, T, D], each whole, in a row",
}
"""The poolings that `pool=` knows."""


class Reshaped(nn.Module):
    """Gives a network whose inputs are no images what it takes: [B, 1, d, 1] -> [B, *shape] with d numbers in each.

    Args:
        network: the network.
        shape: of one input.

    Raises:
        HoldfastError: when run: inputs with another number of numbers.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...]):
        super().__init__()
        self.network, self.shape = network, shape

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Shaped[Tensor, "..."]:
        """Run the network on inputs of its own shape."""
        if x[0].numel() != math.prod(self.shape):
            raise Mismatch(
                f"expected inputs of shape {list(self.shape)}, got {list(x.shape[1:])}; give data of as many numbers, "
                f"for example --data 'gaussian?shape={math.prod(self.shape)}'"
            )
        # [B, C, H, W] to [B, *shape], the same numbers in a row
        return self.network(x.reshape(len(x), *self.shape))


class _Found(BaseException):
    """Carries the captured tensor out of the network, so that later layers cost nothing.

    A BaseException, because a network may catch Exception on the way.
    """

    def __init__(self, value: object):
        self.value = value


_captured: ContextVar[list[Any] | None] = ContextVar("captured", default=None)
"""Receives what layers return while a network is exported; None elsewhere."""

_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.4 has only the latter


def _stop_with(value: Any) -> None:
    captured = _captured.get()
    if captured is None:
        raise _Found(value)
    values = [
        v.clone() if isinstance(v, Tensor) else v for v in (value if isinstance(value, (tuple, list)) else [value])
    ]
    captured.append(values if isinstance(value, (tuple, list)) else values[0])  # clones: later layers may work in place


def _stop_with_output(module: nn.Module, args: tuple[Any, ...], output: object) -> None:
    _stop_with(output)


def _stop_with_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    # A layer may take its tensor by name
    _stop_with(args[0] if args else tensors[0] if len(tensors) == 1 else tuple(tensors))


def check_layer(layer: str | None, build: Callable[[], nn.Module]) -> None:
    """Refuse a layer that a network does not have, before its weights are fetched: it is built without memory.

    Args:
        layer: as `layer=` names it; None: there is nothing to look up.
        build: makes the network, with its classifier, which a layer may belong to.

    Raises:
        HoldfastError: an unknown layer ("did you mean").
    """
    if layer is None or layer in LAYERS:
        return
    # Names of layers need no numbers
    with torch.device("meta"):
        modules = dict(build().named_modules())
    if layer.removesuffix(".input") not in modules:
        raise unknown("layer", layer, filter(None, modules))


class Tap(nn.Module):
    """Runs a network up to a layer and pools what that layer returns: [B, C, H, W] -> [B, D].

    The pass ends at the layer (a hook raises), later layers are never computed; gradients to the pixels remain. Only
    while the network is exported, for certificates, they are.
    A layer that runs several times in one pass is captured the first time.

    Args:
        network: the network.
        layer: dotted name of a module inside `root` (its output), or that name + ".input" (its input); None for
            the output of the network.
        pool: a key of `POOLS`; None accepts only [B, D].
        root: where the names of layers start; the network itself by default.

    Attributes:
        places: with pool "none", where patches lie in what the layer returns; None before `find_grid` knows it, and
            what the layer returns is then passed on.

    Raises:
        HoldfastError: an unknown layer ("did you mean") or pooling; when run: a layer that the pass never
            reaches, one that returns no tensor, or a shape that the pooling does not take.
    """

    def __init__(
        self, network: nn.Module, layer: str | None = None, pool: str | None = None, *, root: nn.Module | None = None
    ):
        super().__init__()
        if pool is not None and pool not in POOLS:
            raise unknown("pooling", pool, POOLS)
        self.network, self.layer, self.pool = network, layer, pool
        self.places: Arrangement | None = None
        if layer is None:
            return
        modules = dict((network if root is None else root).named_modules())
        modules.pop("")  # the network itself has no name
        # The name of a module may end with ".input" as well
        module = modules.get(layer, modules.get(layer.removesuffix(".input")))
        if isinstance(module, torch.jit.ScriptModule):
            raise Unsupported(
                f"layer {layer!r} is TorchScript, out of which nothing can be taken; open the original network, or "
                "leave layer= out"
            )
        if layer in modules:
            modules[layer].register_forward_hook(_stop_with_output)
        elif layer.removesuffix(".input") in modules:
            modules[layer.removesuffix(".input")].register_forward_pre_hook(_stop_with_input, with_kwargs=True)
        else:
            raise unknown("layer", layer, modules)

    @property
    def source(self) -> str:
        """Where its values come from, in words."""
        return "the network" if self.layer is None else f"layer {self.layer!r}"

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Shaped[Tensor, "batch ..."]:
        """Map normalised images to representations (`Encoder` refuses those that are not real)."""
        if self.layer is None:
            return self._pool_output(self.network(x))
        captured: list[Any] = []
        if (
            _exporting()
        ):  # a tracer loses its place where an exception leaves a module, so the rest runs; nothing reads it
            token = _captured.set(captured)
            try:
                self.network(x)
            finally:
                _captured.reset(token)
        else:
            try:
                self.network(x)
            except _Found as stop:
                captured.append(stop.value)
        if not captured:
            raise Unsupported(f"layer {self.layer!r} is never run when the network maps images; choose another layer")
        return self._pool_output(captured[0])

    def _pool_output(self, value: Any) -> Tensor:
        if isinstance(value, (tuple, list)) and len(value) == 1:  # such as (tokens,)
            value = value[0]
        if not isinstance(value, Tensor):
            raise Unsupported(
                f"{self.source} gives a {no_tensor(value)}; expected one tensor, so choose another layer or that"
            )
        if self.pool == "none":
            # [B, D, ...] over patches, to each token whole, one behind the other
            return value if self.places is None else self.places.features(value).movedim(1, -1).flatten(1)
        return _pool_tensor(value, self.pool, self.source)


def _pool_tensor(x: Shaped[Tensor, "batch ..."], pool: str | None, origin: str) -> Tensor:
    match pool, x.ndim:
        case None, 2:
            return x
        case None, 3 | 4 if all(side == 1 for side in x.shape[2:]):
            return x.flatten(1)  # a map of one place: nothing to pool
        case "avg", 4:
            return x.mean(dim=(2, 3))
        case "cls", 3:
            return x[:, 0]
        case "mean", 3:
            return x.mean(dim=1)
        case "flatten", _:
            return x.flatten(1)
    advice = {
        2: "leave pool= out",
        3: "choose pool=cls, mean or flatten, or pool=none for patches",
        4: "choose pool=avg or flatten, or pool=none for patches",
    }.get(x.ndim, "choose pool=flatten")
    problem = "not one vector per image" if pool is None else f"which pool={pool} does not take"
    raise Unsupported(f"{origin} gives {list(x.shape)}, {problem}; {advice}")
