"""Operators that move values and change none: shapes, axes, parts and pads."""

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import NotRead, axes_of, operator, single
from holdfast.sources.onnx.operators.convolution import pad_axes


@operator("Shape")
def shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    """The sizes of some axes."""
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


@operator("Size")
def size(x: Tensor) -> Tensor:
    """How many values there are."""
    return torch.tensor(math.prod(x.shape), dtype=torch.int64)


@operator("Reshape", numbers=(1,), formerly={"shape": 1})
def reshape(x: Tensor, sizes: Sequence[int], *, allowzero: int = 0, consumed_inputs: Any = None) -> Tensor:
    """The values in another shape; 0 is the size that the axis had."""
    return x.reshape([x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(sizes)])


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """A matrix: all axes before one, and all from it on."""
    # An axis may be x.ndim, which has nothing behind it
    at = axis % x.ndim if axis < 0 else axis
    if at == 1 and x.ndim > 1:
        return x.flatten(1)
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


@operator("Transpose")
def transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    """The axes in another order; backward where none is said."""
    return x.permute(list(perm) if perm else list(range(x.ndim))[::-1])


@operator("Squeeze", numbers=(1,), formerly={"axes": 1})
def squeeze(x: Tensor, axes: Any = None) -> Tensor:
    """Without axes of size 1: those named, or all."""
    over = [i for i, n in enumerate(x.shape) if n == 1] if axes is None else axes_of(axes, x.ndim)
    # From the last, so that numbers of others stay true
    for axis in sorted(over, reverse=True):
        if x.shape[axis] != 1:
            raise NotRead(f"a Squeeze of an axis of size {x.shape[axis]}")
        x = x.squeeze(axis)
    return x


@operator("Unsqueeze", numbers=(1,), formerly={"axes": 1})
def unsqueeze(x: Tensor, axes: Any) -> Tensor:
    """With axes of size 1 at places of the result."""
    listed = [axes] if isinstance(axes, int) else list(axes)
    # From the first, in places of the result
    for axis in sorted(axes_of(listed, x.ndim + len(listed))):
        x = x.unsqueeze(axis)
    return x


@operator("Concat", weights=range(64))
def concat(*parts: Tensor, axis: int = 1) -> Tensor:
    """One behind the other along an axis."""
    return torch.cat(parts, axis)


@operator("Split", numbers=(1,), formerly={"split": 1})
def split(
    x: Tensor, sizes: Any = None, *, outputs: int, axis: int = 0, num_outputs: int | None = None
) -> tuple[Tensor, ...]:
    """Parts of these sizes, or of equal ones, of which the last may be smaller."""
    if sizes is None:
        # Rounded up; the last part has what is left
        each = -(-x.shape[axis] // outputs)
        sizes = [each] * (outputs - 1) + [x.shape[axis] - each * (outputs - 1)]
    return x.split(list(sizes), axis)


@operator("Slice", numbers=(1, 2, 3, 4), formerly={"starts": 1, "ends": 2, "axes": 3})
def cut(x: Tensor, starts: Sequence[int], ends: Sequence[int], axes: Any = None, steps: Any = None) -> Tensor:
    """From starts to ends (exclusive), which may lie beyond the axis, in steps, which may go backward."""
    over = list(range(len(starts))) if axes is None else axes_of(axes, x.ndim)
    index: list[slice] = [slice(None)] * x.ndim
    for axis, start, end, step in zip(over, starts, ends, steps or [1] * len(starts), strict=True):
        if step > 0:
            index[axis] = slice(start, end, step)
            continue
        # backward: the same places of the axis turned round
        count = x.shape[axis]
        first = min(start + count if start < 0 else start, count - 1)
        last = max(end + count if end < 0 else end, -1)
        x = x.flip(axis)
        index[axis] = slice(count - 1 - first, count - 1 - last, -step)
    return x[tuple(index)]


MODES = ("constant", "reflect", "edge", "wrap")


@operator("Pad", numbers=(1, 3), scalars={2: 1}, formerly={"pads": 1, "paddings": 1, "value": 2})
def pad(x: Tensor, pads: Sequence[int], value: Any = None, axes: Any = None, *, mode: str = "constant") -> Tensor:
    """Values before and after axes: a number, or what is inside, mirrored, repeated or from the other end."""
    over = list(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    ends = [(0, 0)] * x.ndim
    for place, axis in enumerate(over):
        # Before all axes, then after them
        ends[axis] = (pads[place], pads[len(over) + place])
    if mode == "constant":
        filling = 0.0 if value is None else value
        if isinstance(filling, Tensor):
            raise NotRead("a Pad whose value depends on the image")
        # torch pads the last axes: from the first that is padded on
        first = next((i for i, pair in enumerate(ends) if any(pair)), x.ndim)
        return pad_axes(x, ends[first:], filling)
    if mode not in MODES:
        raise NotRead(f"a Pad of mode {mode}")
    for axis, (before, after) in enumerate(ends):
        x = _wide(x, axis, before, after, mode)
    return x


def _wide(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    """Return a tensor that is wider along one axis by what stands in it."""
    if before < 0 or after < 0:
        # Negative pads cut
        x = x.narrow(axis, max(0, -before), x.shape[axis] - max(0, -before) - max(0, -after))
    if before <= 0 and after <= 0:
        return x
    count = x.shape[axis]
    places = range(-max(before, 0), count + max(after, 0))
    match mode:
        case "edge":
            kept = [min(max(place, 0), count - 1) for place in places]
        case "wrap":
            kept = [place % count for place in places]
        case _:  # mirrored, again and again where it is wider than what there is
            # There and back again, without the ends twice
            period = max(2 * (count - 1), 1)
            kept = [min(place % period, period - place % period) if count > 1 else 0 for place in places]
    return x.index_select(axis, torch.tensor(kept, device=x.device))


@operator("Expand", numbers=(1,), weights=(0,))
def expand(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """The values again along axes of size 1."""
    rank = max(x.ndim, len(sizes))
    # Missing axes are in front
    own = [1] * (rank - x.ndim) + list(x.shape)
    wanted = [1] * (rank - len(sizes)) + list(sizes)
    return x.expand([b if a == 1 else a for a, b in zip(own, wanted, strict=True)])


@operator("Tile", numbers=(1, 2))
def tile(x: Tensor, repeats: Any, axis: Any = None) -> Tensor:
    """The whole again and again along axes."""
    if axis is not None:  # as the first version has it
        counts = [1] * x.ndim
        counts[single(axis)] = single(repeats)
        return x.repeat(counts)
    return x.repeat(list(repeats))


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels as blocks of pixels; in DCR the block's place counts first, in CRD the channel."""
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    # [n, b, b, c, h, w] to [n, c, h, b, w, b]
    y = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of pixels as channels; in DCR the block's place counts first, in CRD the channel."""
    if mode == "CRD":
        return F.pixel_unshuffle(x, blocksize)
    n, c, h, w = x.shape
    # [n, c, h, b, w, b] to [n, b, b, c, h, w]
    y = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


@operator("CenterCropPad", numbers=(1,))
def center(x: Tensor, sizes: Sequence[int], *, axes: Any = None) -> Tensor:
    """Cut or padded with 0 on both sides to sizes."""
    over = list(range(x.ndim)) if axes is None else axes_of(list(axes), x.ndim)
    for axis, want in zip(over, sizes, strict=True):
        have = x.shape[axis]
        if want <= have:
            x = x.narrow(axis, (have - want) // 2, want)
        else:
            before = (want - have) // 2
            x = pad_axes(x, [(before, want - have - before), *[(0, 0)] * (x.ndim - axis - 1)])
    return x


@operator("ReverseSequence", numbers=(1,))
def reverse(x: Tensor, lengths: Sequence[int], *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first so many of each row backward."""
    rows = []
    for row, length in zip(x.unbind(batch_axis), lengths, strict=True):
        # Without the batch axis, those behind it move by one
        at = time_axis - (time_axis > batch_axis)
        rest = row.shape[at] - length
        rows.append(torch.cat([row.narrow(at, 0, length).flip(at), row.narrow(at, length, rest)], at))
    return torch.stack(rows, batch_axis)


@operator("Col2Im", numbers=(1, 2))
def columns_to_image(
    x: Tensor, image: Sequence[int], block: Sequence[int], *, dilations: Any = None, pads: Any = None,
    strides: Any = None,
) -> Tensor:  # fmt: skip
    """Blocks put back to where they were cut out, and added where they overlap."""
    ends = pads or [0, 0, 0, 0]
    if len(image) != 2 or list(ends[:2]) != list(ends[2:]):
        raise NotRead("a Col2Im that is not of pictures, or with uneven pads")
    return F.fold(x, tuple(image), tuple(block), dilations or 1, tuple(ends[:2]), strides or 1)


# --- lists of tensors ---


@operator("SequenceConstruct")
def collect(*parts: Tensor) -> Any:
    """A list."""
    return list(parts)


@operator("SequenceAt", numbers=(1,))
def take(parts: Any, place: Any) -> Tensor:
    """One of a list."""
    return parts[single(place)]


@operator("SplitToSequence", numbers=(1,))
def split_to_list(x: Tensor, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Parts of a tensor, as a list."""
    if sizes is None:
        parts = list(x.split(1, axis))
        return parts if keepdims else [part.squeeze(axis) for part in parts]
    return list(x.split(sizes if isinstance(sizes, int) else list(sizes), axis))


@operator("ConcatFromSequence")
def concat_list(parts: Any, *, axis: int, new_axis: int = 0) -> Tensor:
    """A list as one tensor, behind each other or along a new axis."""
    return torch.stack(parts, axis) if new_axis else torch.cat(parts, axis)


@operator("SequenceLength")
def length(parts: Any) -> Tensor:
    """How many a list has."""
    return torch.tensor(len(parts))
