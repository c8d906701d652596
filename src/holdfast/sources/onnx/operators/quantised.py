"""Integers that stand for real numbers, kept as real numbers with whole values, so that they have a gradient.

A rounding counts on the way back as if it only clipped ("straight through", Bengio et al. 2013): by its own gradient,
0 wherever there is one, no attack would get anywhere. What is attacked is the rounded network all the same. Where the
scale is computed from the image, nothing goes back unless it is asked for.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, operator
from holdfast.sources.onnx.operators.convolution import convolve
from holdfast.sources.onnx.operators.pooling import mean
from holdfast.sources.onnx.operators.reductions import shares

LEVELS = {
    2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767), 21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1),
}  # fmt: skip
"""ONNX's number of a type of integers -> the smallest and the largest of them."""

UINT8 = 2

ROUNDING = (
    "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd", "QLinearMul",
    "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearGlobalAveragePool", "QLinearAveragePool",
    "QLinearConcat",
)  # fmt: skip
"""Operators that give integers by rounding."""


def round_to_levels(x: Tensor, scale: Tensor, zero: Tensor | float, kind: int) -> Tensor:
    """Return min(max(round(x / scale) + zero, low), high), half to even; the gradient is that of the clipping alone."""
    if kind not in LEVELS:
        raise NotRead(f"a rounding to ONNX's type {kind}, which is none of integers of at most 16 bits")
    low, high = (end - zero for end in LEVELS[kind])
    # Clipped in levels without the zero point, which is added in the end
    levels = x / scale
    inside = _between(levels, low, high)
    return inside + (_between(levels.round(), low, high) - inside).detach() + zero


def _between(x: Tensor, low: Any, high: Any) -> Tensor:
    if isinstance(low, Tensor):
        return torch.minimum(torch.maximum(x, low), high)
    return x.clamp(low, high)


def spread(values: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """Return scales or zero points in a shape that fits x: one for all, one along an axis, or one for each block."""
    values = values.to(x.dtype)
    if values.numel() == 1:
        return values.reshape(())
    if block_size:
        # [blocks, ...] to the axis, whose last block may be shorter
        return values.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])
    # Along the axis, with 1 elsewhere
    return values.view([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)]) if values.ndim == 1 else values


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain=MICROSOFT)
def quantise(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, kinds: Sequence[int], axis: int = 1, block_size: int = 0,
    saturate: int = 1, output_dtype: int = 0, precision: int = 0,
) -> Tensor:  # fmt: skip
    """Real numbers as integers."""
    kind = output_dtype or (kinds[2] if len(kinds) > 2 and kinds[2] else UINT8)
    return round_to_levels(x, spread(scale, x, axis, block_size), _zero(zero, x, axis, block_size), kind)


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain=MICROSOFT)
def dequantise(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, real: torch.dtype, axis: int = 1, block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:  # fmt: skip
    """Integers as real numbers."""
    x = x.to(real)
    return (x - _zero(zero, x, axis, block_size)) * spread(scale, x, axis, block_size)


def _zero(zero: Tensor | None, x: Tensor, axis: int = 1, block_size: int = 0) -> Tensor | float:
    return 0.0 if zero is None else spread(zero, x, axis, block_size)


@operator("DynamicQuantizeLinear")
def quantise_by_range(x: Tensor, *, straight: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Integers, scale and zero point by the range of the numbers, which holds 0."""
    if not straight:
        x = x.detach()
    low, high = x.detach().amin().clamp(max=0), x.detach().amax().clamp(min=0)
    scale = (high - low) / 255
    # All zeros: any scale will do
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = (-low / scale).round().clamp(0, 255)
    return round_to_levels(x, scale, zero, UINT8), scale, zero


@operator("MatMulInteger")
def matmul_integers(
    a: Tensor, b: Tensor, zero_a: Tensor | None = None, zero_b: Tensor | None = None, *, real: torch.dtype
) -> Tensor:
    """(a - its zero point)(b - its zero point)."""
    return _whole(a, zero_a, real, -2) @ _whole(b, zero_b, real, -1)


def _whole(x: Tensor, zero: Tensor | None, real: torch.dtype, axis: int) -> Tensor:
    x = x.to(real)
    return x if zero is None else x - spread(zero, x, axis)


@operator("ConvInteger")
def convolve_integers(
    x: Tensor, weight: Tensor, zero: Tensor | None = None, zero_weight: Tensor | None = None, *, real: torch.dtype,
    kernel_shape: Any = None, strides: Any = None, dilations: Any = None, pads: Any = None, auto_pad: str = "NOTSET",
    group: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of x - its zero point; the pads are its zero."""
    return convolve(
        _whole(x, zero, real, 1), _whole(weight, zero_weight, real, 0), strides=strides, dilations=dilations, pads=pads,
        auto_pad=auto_pad, group=group,
    )  # fmt: skip


@operator("QLinearConv")
def convolve_quantised(
    x: Tensor, scale: Tensor, zero: Tensor, weight: Tensor, scale_weight: Tensor, zero_weight: Tensor,
    out_scale: Tensor, out_zero: Tensor, bias: Tensor | None = None, *, real: torch.dtype,
    kinds: Sequence[int], kernel_shape: Any = None, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", group: int = 1,
) -> Tensor:  # fmt: skip
    """A convolution of integers, as integers."""
    whole = _whole(weight, zero_weight, real, 0)
    sums = convolve(
        _whole(x, zero, real, 1), whole, None if bias is None else bias.to(real), strides=strides, dilations=dilations,
        pads=pads, auto_pad=auto_pad, group=group,
    )  # fmt: skip
    # scale_x · scale_w / scale_y, for the sums are in units of both
    factor = scale.to(real) * spread(scale_weight, sums, 1) / out_scale.to(real)
    return round_to_levels(sums * factor, sums.new_ones(()), out_zero.to(real), kinds[7])


@operator("QLinearMatMul")
def matmul_quantised(
    a: Tensor, scale_a: Tensor, zero_a: Tensor, b: Tensor, scale_b: Tensor, zero_b: Tensor, scale: Tensor, zero: Tensor,
    *, real: torch.dtype, kinds: Sequence[int],
) -> Tensor:  # fmt: skip
    """A product of matrices of integers, as integers."""
    sums = _whole(a, zero_a, real, -2) @ _whole(b, zero_b, real, -1)
    # Rows of a, columns of b
    factor = spread(scale_a, sums, -2) * spread(scale_b, sums, -1) / spread(scale, sums, -1)
    return round_to_levels(sums * factor, sums.new_ones(()), spread(zero, sums, -1), kinds[7])


@operator("QGemm", domain=MICROSOFT)
def gemm_quantised(
    a: Tensor, scale_a: Tensor, zero_a: Tensor, b: Tensor, scale_b: Tensor, zero_b: Tensor, c: Tensor | None = None,
    scale: Tensor | None = None, zero: Tensor | None = None, *, real: torch.dtype, kinds: Sequence[int],
    alpha: float = 1.0, transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    """Alpha a b + c of integers, as integers, or as real numbers where no scale is given for them."""
    left, right = _whole(a, zero_a, real, -2), _whole(b, zero_b, real, 0 if transB else -1)
    sums = (left.mT if transA else left) @ (right.mT if transB else right)
    factor = alpha * scale_a.to(real) * spread(scale_b, sums, -1)
    total = (sums if c is None else sums + c.to(real)) * factor
    return total if scale is None else round_to_levels(total, scale.to(real), _zero(zero, total), kinds[8])


def _real(x: Tensor, scale: Tensor, zero: Tensor | None, real: torch.dtype) -> Tensor:
    return _whole(x, zero, real, 1) * scale.to(real)


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def arithmetic_quantised(
    a: Tensor, scale_a: Tensor, zero_a: Tensor | None, b: Tensor, scale_b: Tensor, zero_b: Tensor | None, scale: Tensor,
    zero: Tensor | None = None, *, op: str, real: torch.dtype, kinds: Sequence[int],
) -> Tensor:  # fmt: skip
    """A + b or a b of integers, as integers."""
    left, right = _real(a, scale_a, zero_a, real), _real(b, scale_b, zero_b, real)
    y = left + right if op == "QLinearAdd" else left * right
    return round_to_levels(y, scale.to(real), _zero(zero, y), _kind(kinds, 7))


def _kind(kinds: Sequence[int], place: int) -> int:
    return kinds[place] if place < len(kinds) and kinds[place] else UINT8


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def activation_quantised(
    x: Tensor, scale: Tensor, zero: Tensor | None, out_scale: Tensor, out_zero: Tensor | None = None, *, op: str,
    real: torch.dtype, kinds: Sequence[int], alpha: float = 0.01,
) -> Tensor:  # fmt: skip
    """A function of integers, as integers."""
    y = _real(x, scale, zero, real)
    y = torch.sigmoid(y) if op == "QLinearSigmoid" else F.leaky_relu(y, alpha)
    return round_to_levels(y, out_scale.to(real), _zero(out_zero, y), _kind(kinds, 4))


@operator("QLinearSoftmax", domain=MICROSOFT)
def shares_quantised(
    x: Tensor, scale: Tensor, zero: Tensor | None, out_scale: Tensor, out_zero: Tensor | None = None, *,
    real: torch.dtype, kinds: Sequence[int], axis: int = -1, opset: int = 13,
) -> Tensor:  # fmt: skip
    """Softmax of integers, as integers."""
    y = shares(_real(x, scale, zero, real), op="Softmax", version=opset, axis=axis)
    return round_to_levels(y, out_scale.to(real), _zero(out_zero, y), _kind(kinds, 4))


@operator("QLinearGlobalAveragePool", "QLinearAveragePool", domain=MICROSOFT)
def mean_quantised(
    x: Tensor, scale: Tensor, zero: Tensor | None, out_scale: Tensor, out_zero: Tensor | None = None, *, op: str,
    real: torch.dtype, kinds: Sequence[int], channels_last: int = 0, kernel_shape: Any = None, strides: Any = None,
    pads: Any = None, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Tensor:  # fmt: skip
    """The mean of windows or channels of integers, as integers."""
    y = _real(x, scale, zero, real)
    y = y.movedim(-1, 1) if channels_last else y
    if op == "QLinearGlobalAveragePool":
        y = y.mean(tuple(range(2, y.ndim)), keepdim=True)
    else:
        y = mean(
            y, kernel_shape=kernel_shape, strides=strides, pads=pads, auto_pad=auto_pad, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad,
        )  # fmt: skip
    y = y.movedim(1, -1) if channels_last else y
    return round_to_levels(y, out_scale.to(real), _zero(out_zero, y), _kind(kinds, 4))


@operator("QLinearConcat", domain=MICROSOFT)
def concat_quantised(
    scale: Tensor, zero: Tensor, *parts: Tensor, real: torch.dtype, kinds: Sequence[int], axis: int
) -> Tensor:
    """Integers of several scales one behind the other, in one scale."""
    # x, scale and zero, in turn
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    y = torch.cat([_real(x, own, own_zero, real) for x, own, own_zero in triples], axis)
    return round_to_levels(y, scale.to(real), _zero(zero, y), _kind(kinds, 1))
