"""What a network gives, as representations: one vector of real numbers for each image, or a line that says why not.

This is the one place where the output of a network becomes numbers: in the precision of the pixels, which is float32 in
every audit, whatever the network computes in.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.runtime.errors import Failed


def as_its_weights(x: Tensor, network: nn.Module) -> Tensor:
    """Return the input in the precision of a network's weights, where none of them is in that of the input."""
    kinds = (v.dtype for v in chain(network.parameters(), network.buffers()) if v.is_floating_point())
    first = next(kinds, x.dtype)
    # A network with some weights in the precision of the input converts by itself where it must
    return x if first == x.dtype or any(kind == x.dtype for kind in kinds) else x.to(first)


def representations(output: Any, x: Tensor, name: str) -> Float[Tensor, "batch dim"]:
    """Return what a network gives for some images as representations, in the precision of the images.

    Args:
        output: of the network; [B, D], or the same with sides of 1 behind.
        x: the images.
        name: of the encoder, for errors.

    Raises:
        HoldfastError: anything else: what came, and what to write.

    Example:
        >>> representations(torch.ones(2, 3, 1, 1).half(), torch.zeros(2, 1, 4, 4), "it").dtype
        torch.float32
    """
    if problem := _problem(output, x):
        raise Failed(f"encoder {name!r}: expected a real [{len(x)}, dim] output, got {problem}")
    # In the precision of the pixels, whatever the network computes in
    return output.flatten(1).to(x.dtype)


def _problem(output: Any, x: Tensor) -> str:
    """Return what is wrong with an output for some images, and what to write instead; "" where nothing is."""
    # In this order, for each test reads what the one before has made sure of
    if not isinstance(output, Tensor):
        return no_tensor(output)
    if output.is_nested:
        return "a nested tensor; give one size to all: torch.nested.to_padded_tensor(output, 0.0)"
    if output.layout != torch.strided:
        return f"a {str(output.layout)[6:]} tensor; write output.to_dense()"
    own = getattr(type(output), "__torch_dispatch__", None)
    if own not in (getattr(kind, "__torch_dispatch__", None) for kind in (Tensor, type(x))):  # it may compute otherwise
        return f"a {type(output).__name__}; return a plain tensor"
    got = f"{output.dtype} {list(output.shape)}"
    if output.is_quantized:
        return f"{got}; write output.dequantize()"
    if output.is_meta and not x.is_meta:
        return f"{got} on the device 'meta', which holds no values"
    if output.is_complex():
        return f"{got}; say what of it counts: output.abs(), or torch.view_as_real(output).flatten(1)"
    if not output.is_floating_point():
        return f"{got}; whole numbers have no gradient, so return what they were rounded from"
    # The shape last
    return _misshapen(output, len(x), got)


def _misshapen(output: Tensor, count: int, got: str) -> str:
    if output.ndim == 0 or len(output) != count:
        return f"{got}; return one vector per image, in the order of the images"
    if 0 in output.shape[1:]:
        return f"{got}, no number for an image; return at least one"
    if output.ndim == 1:
        return f"{got}, one number per image; where that is meant, return output[:, None]"
    if all(side == 1 for side in output.shape[2:]):  # [B, D], and what a pooling leaves: [B, D, 1, 1]
        return ""
    # Tokens [B, N, D], maps [B, D, H, W]
    how = {3: "output[:, 0] or output.mean(1)", 4: "output.mean((2, 3))"}.get(output.ndim, "output.flatten(1)")
    return f"{got}; choose a layer and a pooling that give one vector per image, such as {how} or ?layer= and ?pool="


def no_tensor(output: Any) -> str:
    """Return what came instead of a tensor: the tensors in it, and how to return one of them."""
    kind, tensors = type(output).__name__, {how: v for how, v in _entries(output) if isinstance(v, Tensor)}
    if not tensors:
        return f"{kind}; return a tensor, one vector per image"
    listed = ", ".join(f"output{how} {list(value.shape)}" for how, value in list(tensors.items())[:6])
    # A matrix is the most likely one
    first = next((how for how, value in tensors.items() if value.ndim == 2), next(iter(tensors)))
    return f"{kind} of {listed}; return one of them, such as output{first}"


def _entries(output: Any) -> Iterator[tuple[str, Any]]:
    """Yield (how it is written, what it is) of all that an output holds."""
    if isinstance(output, Mapping):
        yield from ((f"[{key!r}]", value) for key, value in output.items())
    elif isinstance(output, tuple) and hasattr(output, "_fields"):
        yield from ((f".{key}", value) for key, value in zip(output._fields, output, strict=True))  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(output, (list, tuple)):
        yield from ((f"[{place}]", value) for place, value in enumerate(output))
    elif dataclasses.is_dataclass(output):
        yield from ((f".{entry.name}", getattr(output, entry.name)) for entry in dataclasses.fields(output))
    elif hasattr(output, "__dict__"):
        yield from ((f".{key}", value) for key, value in vars(output).items())
