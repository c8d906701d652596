"""Searches in reduced precision: passes with a gradient to the pixels may round, what is read out may not."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from holdfast.core.compiled import compiling
from holdfast.runtime.errors import NotFinite, Unsupported, unknown

PRECISIONS = ("float32", "tf32", "bf16", "fp16")
"""float32; its products with 10 bits of mantissa (CUDA); bfloat16; half."""

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

LARGEST = 4
"""Exponent of two to which the largest entry of each image's gradient is brought before it goes through fp16, whose
normal numbers reach from 2^-14 to 2^16: what shrinks on the way has more room than what grows."""

Call = Callable[[Tensor], Tensor]


def check_precision(name: str, device: str) -> None:
    """Refuse a precision that is not known, or that the device does not have.

    Raises:
        HoldfastError: see above.
    """
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    if name == "tf32" and not device.startswith("cuda"):
        raise Unsupported(
            f"precision tf32: expected a CUDA device, got {device!r}; leave it out (float32), or take bf16"
        )


def needs_care(device: torch.device) -> bool:
    """Whether torch computes in float32 on a device with fewer digits than that, unless it is told not to."""
    return device.type == "cuda"


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Allow or forbid products of float32 with 10 bits of mantissa on CUDA; torch allows them in convolutions.

    Torch has two settings: `allow_tf32`, and since 2.9 `fp32_precision`, which decides; the former cannot be read where
    the latter alone was set. Both are set, and afterwards what they were.
    """
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    # All is read before anything is set, for one setting changes what the other says
    flags = [(place, _allows(place)) for place in (matmul, cudnn)]
    newer = [matmul, cudnn.conv, cudnn.rnn] if hasattr(matmul, "fp32_precision") else []
    precisions = [(place, place.fp32_precision) for place in newer]
    # The older setting first: where there is a newer one, that decides
    matmul.allow_tf32 = cudnn.allow_tf32 = allowed
    for place in newer:
        place.fp32_precision = "tf32" if allowed else "ieee"
    try:
        yield
    finally:
        for place, before in flags:  # in the same order
            if before is not None:
                place.allow_tf32 = before
        for place, before in precisions:
            place.fp32_precision = before


def _allows(place: Any) -> bool | None:
    try:
        return place.allow_tf32
    except RuntimeError:  # only the newer setting has been made
        return None


@contextmanager
def use_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Compute in a precision; in float32 as IEEE has it, whatever the process allows elsewhere."""
    with ExitStack() as stack:
        if needs_care(device):
            stack.enter_context(tf32(precision == "tf32"))
        if precision in DTYPES:
            stack.enter_context(torch.autocast(device.type, DTYPES[precision]))
        yield


def call_with_gradient(call: Call, x: Float[Tensor, "batch *pixels"], precision: str, name: str) -> Any:
    """Return call(x) with a gradient to x, both computed in a precision; for one backward pass.

    The gradient of every image is scaled by a power of two for fp16 and back again, so that it does not vanish.

    Args:
        call: from images to representations, each of its own image alone.
        x: the images.
        precision: one of `PRECISIONS`.
        name: of the encoder, for errors.

    Raises:
        HoldfastError: in fp16, a value or a gradient that is not finite; a second backward pass.
    """
    return _Searched.apply(x, call, precision, name)


class _Searched(torch.autograd.Function):
    """A pass whose backward pass is made here as well: what holds for the one must be undone after the other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, call: Call, precision: str, name: str) -> Any:
        # A graph of its own, whose backward pass is made below and not by the caller's
        inner = x.detach().requires_grad_()
        with torch.enable_grad(), use_precision(precision, x.device):
            reps = call(inner)
        if precision == "fp16" and not bool(reps.isfinite().all()):
            raise _overflow("representation")
        ctx.held, ctx.precision, ctx.name = (inner, reps), precision, name
        # In the precision of the pixels again; the values were rounded inside
        rounded_reps = reps.detach().to(x.dtype)
        if not reps.requires_grad:
            ctx.mark_non_differentiable(rounded_reps)  # else autograd would expect a gradient of it
        return rounded_reps

    @staticmethod
    @once_differentiable  # which hides the names of arguments
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor, None, None, None]:
        (gradient,) = grad_outputs
        if ctx.held is None:
            raise Unsupported("an encoder pass in reduced precision, or compiled, has one backward pass, got a second")
        (inner, reps), ctx.held = ctx.held, None  # freed by its backward pass, as torch frees a graph
        # Each image has its own scale: [B] beside [B, D]
        scale = _scale(gradient) if ctx.precision == "fp16" else None
        scaled = gradient if scale is None else gradient * scale.view(-1, *[1] * (gradient.ndim - 1))
        with use_precision(ctx.precision, inner.device), compiling(ctx.name):  # what is compiled backward, is so here
            # In the precision of the output, which autocast may have lowered
            (grad,) = torch.autograd.grad(reps, inner, scaled.to(reps.dtype))
        if scale is not None:
            if not bool(grad.isfinite().all()):
                raise _overflow("gradient")
            # Exact, for the scale is a power of two
            grad = grad / scale.view(-1, *[1] * (grad.ndim - 1))
        return grad, None, None, None


def _scale(gradient: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch"]:
    """Return for each image the power of two that brings its largest entry to about 2^LARGEST; 1 where all are 0."""
    largest = gradient.flatten(1).abs().amax(1).float()
    # Within ±100 the power of two and its inverse are normal numbers of float32
    exponent = (LARGEST - largest.log2().floor()).clamp(-100, 100)
    return torch.where(largest > 0, exponent.exp2(), 1.0)


def _overflow(quantity: str) -> NotFinite:
    return NotFinite(
        f"precision fp16: expected a finite {quantity}, got NaN or infinity: its range ends at 65,504; take "
        "--precision bf16, which has the range of float32"
    )
