"""Pools: the largest, the mean and the norm of windows and of whole channels."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import NotRead, is_real, operator
from holdfast.sources.onnx.operators.convolution import pad_axes, widths

MAXIMUM: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def windows(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Any, auto_pad: str,
    ceil_mode: int,
) -> tuple[list[tuple[int, int]], list[int]]:  # fmt: skip
    """Return the pads of each axis, and how many further places after it the last window reaches that begins inside."""
    sizes = x.shape[2:]
    ends = widths(sizes, kernel, strides, dilations, pads, auto_pad)
    beyond = []
    for size, (before, after), side, stride, dilation in zip(sizes, ends, kernel, strides, dilations, strict=True):
        span, whole = (side - 1) * dilation + 1, size + before + after
        # Windows that fit into the padded axis
        count = (whole - span) // stride + 1
        if ceil_mode:
            # Rounded up: one more, which reaches beyond
            most = -(-(whole - span) // stride) + 1
            if (most - 1) * stride >= size + before:  # it would begin in what was added after the axis
                most -= 1
            count = max(count, most)
        beyond.append(max(0, (count - 1) * stride + span - whole))
    return ends, beyond


def _even(ends: Sequence[tuple[int, int]], beyond: Sequence[int], kernel: Sequence[int]) -> list[int] | None:
    """Return pads as torch's own pools take them, alike at both ends and half a window at most; None for others."""
    alike = all(before == after and 0 <= 2 * before <= side for (before, after), side in zip(ends, kernel, strict=True))
    return [before for before, _ in ends] if alike and not any(beyond) else None


@operator("MaxPool")
def largest(
    x: Tensor, *, outputs: int, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, storage_order: int = 0,
) -> Any:  # fmt: skip
    """The largest of each window, and where it is in the whole tensor."""
    rank = x.ndim - 2
    if rank not in MAXIMUM:
        raise NotRead(f"a pool of {list(x.shape)}")
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    ends, beyond = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    if outputs > 1:
        return _with_places(x, kernel_shape, strides, dilations, ends, beyond, storage_order)
    if (even := _even(ends, beyond, kernel_shape)) is not None:
        return MAXIMUM[rank](x, kernel_shape, strides, even, dilations)
    # The smallest number, so that pads are never the largest
    least = -math.inf if is_real(x) else torch.iinfo(x.dtype).min
    ends = [(before, after + more) for (before, after), more in zip(ends, beyond, strict=True)]
    return MAXIMUM[rank](pad_axes(x, ends, least), kernel_shape, strides, 0, dilations)


def _with_places(
    x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    ends: Sequence[tuple[int, int]], beyond: Sequence[int], storage_order: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if x.ndim != 4 or storage_order:
        raise NotRead("the places of a MaxPool that is not of pictures, row by row")
    ends = [(before, after + more) for (before, after), more in zip(ends, beyond, strict=True)]
    wide = pad_axes(x, ends, -math.inf)
    values, places = F.max_pool2d(wide, list(kernel), list(strides), 0, list(dilations), return_indices=True)
    # places in the padded channel -> in the channel -> in the tensor
    rows, columns = places // wide.shape[3] - ends[0][0], places % wide.shape[3] - ends[1][0]
    channels = torch.arange(x.shape[0] * x.shape[1], device=x.device).view(x.shape[0], x.shape[1], 1, 1)
    return values, channels * (x.shape[2] * x.shape[3]) + rows * x.shape[3] + columns


@operator("AveragePool")
def mean(
    x: Tensor, *, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
) -> Tensor:  # fmt: skip
    """The mean of each window, of the values alone or of the pads, too."""
    rank = x.ndim - 2
    if rank not in MEAN:
        raise NotRead(f"a pool of {list(x.shape)}")
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    ends, beyond = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    even = _even(ends, beyond, kernel_shape)
    if even is not None and all(dilation == 1 for dilation in dilations):
        return MEAN[rank](x, kernel_shape, strides, even, False, bool(count_include_pad))
    outer = [(0, more) for more in beyond]
    # How many values of each window count: 1 inside, in pads as asked, 0 beyond
    ones = x.new_ones(1, 1, *x.shape[2:])
    counted = pad_axes(pad_axes(ones, ends, float(count_include_pad)), outer)
    return _sums(pad_axes(pad_axes(x, ends), outer), kernel_shape, strides, dilations) / _sums(
        counted, kernel_shape, strides, dilations
    )


def _sums(x: Tensor, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Tensor:
    """Return the sum of each window, axis by axis."""
    for axis, (side, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True), start=2):
        count = (x.shape[axis] - (side - 1) * dilation - 1) // stride + 1
        # A part for each place of the window, moved against each other
        parts = [x.narrow(axis, k * dilation, x.shape[axis] - k * dilation) for k in range(side)]
        x = sum(_every(part, axis, stride, count) for part in parts)  # pyright: ignore
    return x


def _every(x: Tensor, axis: int, stride: int, count: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(0, (count - 1) * stride + 1, stride),)]


@operator("LpPool")
def norm(
    x: Tensor, *, kernel_shape: Any, strides: Any = None, dilations: Any = None, pads: Any = None,
    auto_pad: str = "NOTSET", ceil_mode: int = 0, p: float = 2,
) -> Tensor:  # fmt: skip
    """The p-norm of each window."""
    rank = x.ndim - 2
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    ends, beyond = windows(x, kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    ends = [(before, after + more) for (before, after), more in zip(ends, beyond, strict=True)]
    return _sums(pad_axes(x.abs() ** p, ends), kernel_shape, strides, dilations) ** (1 / p)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def of_channels(x: Tensor, *, op: str, p: float = 2) -> Tensor:
    """The mean, the largest or the p-norm of each channel."""
    axes = tuple(range(2, x.ndim))
    if op == "GlobalAveragePool":
        return x.mean(axes, keepdim=True)
    if op == "GlobalMaxPool":
        return x.amax(axes, keepdim=True)
    return (x.abs() ** p).sum(axes, keepdim=True) ** (1 / p)


@operator("MaxUnpool", numbers=(2,))
def unpool(
    x: Tensor, places: Tensor, shape: Any = None, *, kernel_shape: Any, strides: Any = None, pads: Any = None
) -> Tensor:
    """Each value where a MaxPool found it, else 0."""
    rank = x.ndim - 2
    strides, ends = strides or [1] * rank, pads or [0] * (2 * rank)
    sides = [
        (n - 1) * s + k - ends[i] - ends[rank + i]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel_shape, strict=True))
    ]
    inner = [x.shape[0], x.shape[1], *sides]
    y = x.new_zeros(math.prod(inner)).scatter(0, places.flatten(), x.flatten()).view(inner)
    # places count in the shape that was pooled; a larger result has zeros behind it
    return y if shape is None else pad_axes(y, [(0, want - have) for want, have in zip(shape, inner, strict=True)])
