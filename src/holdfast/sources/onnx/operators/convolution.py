"""Convolutions and their transposes, in one to three dimensions, with all that ONNX says of pads."""

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import MICROSOFT, NotRead, operator

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def widths(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    pads: Sequence[int] | None, auto_pad: str,
) -> list[tuple[int, int]]:  # fmt: skip
    """Return the pads of each axis, before and after it.

    SAME: such that there are ceil(size / stride) windows; the odd one goes after (UPPER) or before (LOWER).

    Args:
        sizes: of the axes.
        kernel: its sizes.
        strides: of the windows.
        dilations: distances within a window.
        pads: those before all axes, then those after them, where they are said.
        auto_pad: "NOTSET", "VALID", "SAME_UPPER" or "SAME_LOWER".

    Example:
        >>> widths([7], [3], [2], [1], None, "SAME_UPPER"), widths([8], [3], [2], [1], None, "SAME_LOWER")
        ([(1, 1)], [(1, 0)])
    """
    if auto_pad == "VALID":
        return [(0, 0)] * len(sizes)
    if auto_pad in ("", "NOTSET"):
        ends = list(pads) if pads else [0] * (2 * len(sizes))
        return list(zip(ends[: len(sizes)], ends[len(sizes) :], strict=True))
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise NotRead(f"auto_pad {auto_pad}")
    found = []
    for size, side, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        # -(-a // b) rounds up
        total = max((-(-size // stride) - 1) * stride + (side - 1) * dilation + 1 - size, 0)
        small = total // 2
        found.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return found


def pad_axes(x: Tensor, ends: Sequence[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Return a tensor with values before and after its last axes; negative numbers cut it."""
    if not any(before or after for before, after in ends):
        return x
    # torch counts axes from the last one
    return F.pad(x, [width for pair in reversed(ends) for width in pair], value=value)


@operator("Conv", weights=(1, 2))
def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, kernel_shape: Any = None, strides: Any = None,
    dilations: Any = None, pads: Any = None, auto_pad: str = "NOTSET", group: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of [N, C, ...]."""
    rank = x.ndim - 2
    if rank not in CONVOLVE:
        raise NotRead(f"a convolution of {list(x.shape)}")
    kernel, strides, dilations = list(weight.shape[2:]), strides or [1] * rank, dilations or [1] * rank
    ends = widths(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
    # Pads alike on both ends are left to the convolution, which need not copy x
    even = all(before == after >= 0 for before, after in ends)
    padding = [before for before, _ in ends] if even else [0] * rank
    x = x if even else pad_axes(x, ends)
    return CONVOLVE[rank](x, weight, bias, strides, padding, dilations, group)


@operator("FusedConv", domain=MICROSOFT, weights=(1, 2))
def convolve_and_activate(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, added: Tensor | None = None, *, activation: str = "",
    activation_params: Any = None, kernel_shape: Any = None, strides: Any = None, dilations: Any = None,
    pads: Any = None, auto_pad: str = "NOTSET", group: int = 1,
) -> Tensor:  # fmt: skip
    """The convolution of [N, C, ...], what is added to it, and the activation behind it."""
    y = convolve(x, weight, bias, strides=strides, dilations=dilations, pads=pads, auto_pad=auto_pad, group=group)
    y = y if added is None else y + added
    if activation == "Clip":
        return y.clamp(*activation_params)
    known = {"": lambda y: y, "Relu": F.relu, "Tanh": F.tanh, "Sigmoid": F.sigmoid}
    if activation == "LeakyRelu":
        return F.leaky_relu(y, *activation_params)
    if activation not in known:
        raise NotRead(f"FusedConv with {activation}")
    return known[activation](y)


@operator("ConvTranspose", weights=(1, 2))
def convolve_transposed(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, kernel_shape: Any = None, strides: Any = None,
    dilations: Any = None, pads: Any = None, output_padding: Any = None, output_shape: Any = None,
    auto_pad: str = "NOTSET", group: int = 1,
) -> Tensor:  # fmt: skip
    """The transpose of a convolution, cut to the size that is asked for."""
    rank = x.ndim - 2
    if rank not in TRANSPOSE:
        raise NotRead(f"a transposed convolution of {list(x.shape)}")
    strides, dilations, further = strides or [1] * rank, dilations or [1] * rank, output_padding or [0] * rank
    # Places that a dilated kernel spans
    spans = [(side - 1) * dilation + 1 for side, dilation in zip(weight.shape[2:], dilations, strict=True)]
    # (n - 1) stride + span + what is added at the end
    whole = [s * (n - 1) + k + f for s, n, k, f in zip(strides, x.shape[2:], spans, further, strict=True)]
    # what is cut off before and after each axis
    if output_shape or auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = (output_shape or [n * s for n, s in zip(x.shape[2:], strides, strict=True)])[-rank:]
        totals = [size - want for size, want in zip(whole, wanted, strict=True)]
        if not output_shape:
            totals = [max(total, 0) for total in totals]
        halves = [total // 2 for total in totals]
        upper = auto_pad == "SAME_UPPER"
        cuts = [(h, t - h) if upper else (t - h, h) for h, t in zip(halves, totals, strict=True)]
    else:
        cuts = widths(x.shape[2:], spans, strides, dilations, pads, auto_pad)
    # torch cuts alike on both ends, and adds less than a stride or a dilation
    even = all(before == after >= 0 and f < max(s, d) for (before, after), f, s, d in zip(
        cuts, further, strides, dilations, strict=True))  # fmt: skip
    if even:
        return TRANSPOSE[rank](x, weight, bias, strides, [before for before, _ in cuts], further, group, dilations)
    # Computed whole and then cut; the bias comes after, for what is added has it too
    y = TRANSPOSE[rank](x, weight, None, strides, 0, 0, group, dilations)
    y = pad_axes(y, [(-before, f - after) for (before, after), f in zip(cuts, further, strict=True)])
    return y if bias is None else y + bias.view(-1, *[1] * rank)
