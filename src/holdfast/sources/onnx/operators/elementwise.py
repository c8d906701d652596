"""Operators on each number by itself: functions, activations, arithmetic, comparisons."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, axes_of, is_real, operator, type_of

UNSIGNED = {4: 2**16 - 1, 12: 2**32 - 1}
"""ONNX's number of a type of which torch takes a larger one -> all of its bits."""

UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin, "Asinh": torch.asinh,
    "Atan": torch.atan, "Atanh": torch.atanh, "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh,
    "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor, "IsNaN": torch.isnan, "Log": torch.log,
    "Neg": torch.neg, "Not": torch.logical_not, "Reciprocal": torch.reciprocal,
    "Relu": torch.relu, "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin,
    "Sinh": torch.sinh, "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": torch.sqrt, "Tan": torch.tan,
    "Tanh": torch.tanh, "Mish": F.mish, "HardSwish": F.hardswish,
}  # fmt: skip


@operator(*(name for name in UNARY if name not in ("IsNaN", "Not")), keeps=True)
@operator("IsNaN", "Not")
def unary(x: Tensor, *, op: str, consumed_inputs: Any = None) -> Tensor:
    """One function of each number."""
    return UNARY[op](x)


@operator("Identity", keeps=True)
def identity(x: Tensor) -> Tensor:
    """The input."""
    return x


@operator("Dropout", formerly={"ratio": 1}, numbers=(1, 2))
def dropout(
    x: Tensor, ratio: Any = None, training: Any = None, *, outputs: int, is_test: int = 1, seed: int = 0,
    consumed_inputs: Any = None,
) -> Any:  # fmt: skip
    """The input: what is deployed drops nothing."""
    if training and (ratio is None or ratio):
        raise NotRead("a Dropout in training, which draws random numbers: export in eval mode")
    return (x, torch.ones_like(x, dtype=torch.bool)) if outputs > 1 else x


@operator("IsInf")
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Whether a number is infinite, on the sides asked for."""
    found = torch.isinf(x)
    if not detect_negative:
        found = found & (x > 0)
    return found if detect_positive else found & (x < 0)


# --- activations with parameters ---


@operator("Elu", keeps=True)
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Tensor:
    """x, below 0 alpha (exp(x) - 1)."""
    return F.elu(x, alpha)


@operator("Celu", keeps=True)
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return F.celu(x, alpha)


@operator("Selu", keeps=True)
def selu(x: Tensor, *, alpha: float, gamma: float, consumed_inputs: Any = None) -> Tensor:
    """Gamma times Elu."""
    return gamma * F.elu(x, alpha)


@operator("LeakyRelu", keeps=True)
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Tensor:
    """x, below 0 alpha x."""
    return F.leaky_relu(x, alpha)


@operator("PRelu", weights=(1,))
def prelu(x: Tensor, slope: Tensor, *, version: int, consumed_inputs: Any = None) -> Tensor:
    """x, below 0 slope x; the slopes of old versions are one for each channel."""
    # Along channels, where later versions spread to the last axes
    if version < 7 and slope.ndim == 1 and x.ndim > 2:
        slope = slope.view(-1, *[1] * (x.ndim - 2))
    spread = (1,) * (x.ndim - slope.ndim) + tuple(slope.shape)
    # One slope for all or for each channel is torch's own operation
    if slope.numel() == 1 or (x.ndim > 1 and spread == (1, x.shape[1], *[1] * (x.ndim - 2))):
        return F.prelu(x, slope.flatten())
    return torch.where(x > 0, x, slope * x)


@operator("ThresholdedRelu", keeps=True)
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """X where it is above alpha, else 0."""
    return torch.where(x > alpha, x, torch.zeros_like(x))


@operator("Shrink", keeps=True)
def shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """X + bias below -lambd, x - bias above lambd, else 0."""
    below, above = x < -lambd, x > lambd
    return torch.where(below, x + bias, torch.where(above, x - bias, torch.zeros_like(x))).to(x.dtype)


@operator("HardSigmoid", keeps=True)
def hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Any = None) -> Tensor:
    """Alpha x + beta between 0 and 1."""
    return (alpha * x + beta).clamp(0, 1)


@operator("Gelu", keeps=True)
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    """X Φ(x), or its approximation by tanh."""
    return F.gelu(x, approximate=approximate)


@operator("Gelu", domain=MICROSOFT)
def gelu_fused(x: Tensor) -> Tensor:
    """X Φ(x)."""
    return F.gelu(x)


@operator("FastGelu", "BiasGelu", domain=MICROSOFT, weights=(1,))
def gelu_of_sum(x: Tensor, bias: Tensor | None = None, *, op: str) -> Tensor:
    """Gelu of x + bias; the fast one is the approximation by tanh."""
    return F.gelu(x if bias is None else x + bias, approximate="tanh" if op == "FastGelu" else "none")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """X sigmoid(alpha x)."""
    return x * torch.sigmoid(alpha * x)


@operator("Swish", keeps=True)
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """X sigmoid(alpha x)."""
    return x * torch.sigmoid(alpha * x)


@operator("Clip", scalars={1: 1, 2: 1}, formerly={"min": 1, "max": 2}, keeps=True)
def clip(x: Tensor, low: Any = None, high: Any = None, *, consumed_inputs: Any = None) -> Tensor:
    """X between low and high; where low is above high, high."""
    # The operation that certifiers know
    if low == 0 and high is None:
        return torch.relu(x)
    numbers = [end for end in (low, high) if end is not None]
    if len(numbers) == 2 and not any(isinstance(end, Tensor) for end in numbers) and is_real(x) and low <= high:
        return F.hardtanh(x, low, high)  # whose way back is one operation, as that of ReLU6
    if not any(isinstance(end, Tensor) for end in numbers):
        return x.clamp(low, high) if numbers else x
    # One after the other: where low is above high, high counts
    x = x if low is None else torch.maximum(x, torch.as_tensor(low, dtype=x.dtype, device=x.device))
    return x if high is None else torch.minimum(x, torch.as_tensor(high, dtype=x.dtype, device=x.device))


# --- two and more ---


def align_axes(a: Tensor, b: Tensor, broadcast: int, axis: int | None) -> Tensor:
    """Return b for a as old versions spread it: its axes begin at `axis` of a, or end where those of a do."""
    if broadcast and axis is not None and b.ndim and b.ndim < a.ndim:
        start = axes_of(axis, a.ndim)[0]
        # Axes of size 1 behind, so that it begins at the axis of a
        b = b.view(*b.shape, *[1] * (a.ndim - start - b.ndim))
    return b


def _divide(a: Tensor, b: Tensor) -> Tensor:
    # Whole numbers are cut towards 0
    return a / b if is_real(a) else torch.div(a, b, rounding_mode="trunc")


ARITHMETIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": _divide,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
    "Equal": torch.eq, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le,
}  # fmt: skip


@operator("Add", "Sub", "Mul", "Div", weights=(0, 1))
def arithmetic(
    a: Tensor, b: Tensor, *, op: str, broadcast: int = 0, axis: int | None = None, consumed_inputs: Any = None
) -> Tensor:
    """A and b, spread to each other's shape."""
    return ARITHMETIC[op](a, align_axes(a, b, broadcast, axis))


@operator(*(name for name in ARITHMETIC if name not in ("Add", "Sub", "Mul", "Div")))
def logic(a: Tensor, b: Tensor, *, op: str, broadcast: int = 0, axis: int | None = None) -> Tensor:
    """A and b, spread to each other's shape."""
    return ARITHMETIC[op](a, align_axes(a, b, broadcast, axis))


@operator("Pow", scalars={1: 1})
def power(a: Tensor, b: Any, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
    """A to the power of b, in the type of a."""
    if isinstance(b, Tensor):
        return torch.pow(a, align_axes(a, b, broadcast, axis)).to(a.dtype)
    # Fractional powers of whole numbers go through float64
    if not is_real(a) and not float(b).is_integer():
        return torch.pow(a.double(), b).to(a.dtype)
    return torch.pow(a, b if is_real(a) else int(b))


@operator("Mod")
def modulo(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The remainder with the sign of b, or of a as C's fmod."""
    return torch.fmod(a, b) if fmod else torch.remainder(a, b)


@operator("BitShift")
def bit_shift(a: Tensor, b: Tensor, *, direction: str, kinds: Sequence[int]) -> Tensor:
    """Bits moved to the left or right."""
    if direction == "RIGHT":
        return torch.bitwise_right_shift(a, b)
    return _own_bits(torch.bitwise_left_shift(a, b), kinds)


@operator("BitwiseNot")
def bitwise_not(x: Tensor, *, kinds: Sequence[int]) -> Tensor:
    """Each bit turned."""
    return _own_bits(torch.bitwise_not(x), kinds)


def _own_bits(x: Tensor, kinds: Sequence[int]) -> Tensor:
    """Return integers without the bits that their type has not, but the larger one has that stands for it."""
    return x & UNSIGNED[kinds[0]] if kinds and kinds[0] in UNSIGNED else x


@operator("Max", "Min", "Sum", "Mean")
def several(first: Tensor, *others: Tensor, op: str, consumed_inputs: Any = None) -> Tensor:
    """Of several, spread to each other's shape."""
    two = {"Max": torch.maximum, "Min": torch.minimum}.get(op, torch.add)
    found = reduce(two, others, first)
    return found / (1 + len(others)) if op == "Mean" else found


@operator("Where")
def where(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """A where chosen, else b."""
    return torch.where(chosen, a, b)


@operator("Cast", "CastLike")
def cast(
    x: Tensor, like: Tensor | None = None, *, real: torch.dtype, kinds: Sequence[int], to: Any = None,
    saturate: int = 1, round_mode: str = "",
) -> Tensor:  # fmt: skip
    """The numbers in another type; real ones keep the precision of the pass."""
    if like is not None:
        # `like` says its ONNX type, where that is known
        return _cast(x, type_of(kinds[1], real) if kinds[1] else like.dtype)
    names = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "INT32": 6, "INT64": 7, "BOOL": 9, "FLOAT16": 10, "DOUBLE": 11}
    if isinstance(to, str):  # as the first version has it
        if to not in names:
            raise NotRead(f"a cast to {to}")
        to = names[to]
    return _cast(x, type_of(to, real))


def _cast(x: Tensor, kind: torch.dtype) -> Tensor:
    return x if x.dtype == kind else x != 0 if kind == torch.bool else x.to(kind)
