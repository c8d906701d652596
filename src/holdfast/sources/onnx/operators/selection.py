"""Values picked and put by their places, and tensors made from numbers."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.sources.onnx.operator import NotRead, axes_of, operator, single, type_of


@operator("Gather", weights=(0,), scalars={1: 0})
def gather(x: Tensor, places: Any, *, axis: int = 0) -> Tensor:
    """Rows along an axis; negative places count from the end."""
    (at,) = axes_of(axis, x.ndim)
    if not isinstance(places, Tensor):
        return x.select(at, places)
    # Places from the end
    index = torch.where(places < 0, places + x.shape[at], places)
    rows = x.index_select(at, index.flatten().to(x.device))
    # The axis gives way to the axes of the places
    return rows.reshape(*x.shape[:at], *places.shape, *x.shape[at + 1 :])


@operator("GatherElements")
def gather_elements(x: Tensor, places: Tensor, *, axis: int = 0) -> Tensor:
    """One value for each place, along an axis."""
    return x.gather(axis, torch.where(places < 0, places + x.shape[axis], places))


@operator("GatherND")
def gather_nd(x: Tensor, places: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Parts of a tensor, each at a place of several axes."""
    depth, b = places.shape[-1], batch_dims
    # A tensor of indices for each axis
    index = tuple(torch.where(p < 0, p + n, p) for p, n in zip(places.unbind(-1), x.shape[b:], strict=False))
    # Places in the batch, each along its own axis
    rows = [
        torch.arange(x.shape[i], device=x.device).view(*[1] * i, -1, *[1] * (places.ndim - 2 - i)) for i in range(b)
    ]
    return x[(*rows, *index)] if depth else x.expand(*places.shape[:-1], *x.shape)


@operator("Scatter", "ScatterElements")
def scatter_elements(x: Tensor, places: Tensor, values: Tensor, *, axis: int = 0, reduction: str = "none") -> Tensor:
    """The tensor with values at places along an axis, in their stead or added, multiplied, compared."""
    index = torch.where(places < 0, places + x.shape[axis], places)
    if reduction in ("none", ""):
        return x.scatter(axis, index, values)
    kinds = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    return x.scatter_reduce(axis, index, values, kinds[reduction])


@operator("ScatterND")
def scatter_nd(x: Tensor, places: Tensor, values: Tensor, *, reduction: str = "none") -> Tensor:
    """The tensor with parts at places of several axes, in their stead or added, multiplied, compared."""
    index = tuple(torch.where(p < 0, p + n, p) for p, n in zip(places.unbind(-1), x.shape, strict=False))
    if reduction in ("none", "", "add"):
        return x.index_put(index, values, accumulate=reduction == "add")
    # one flat place for each value
    depth, rest = places.shape[-1], x.shape[places.shape[-1] :]
    # Row-major: ((i · n_1 + j) · n_2 + k) · ...
    flat = torch.zeros_like(index[0])
    for part, count in zip(index, x.shape[:depth], strict=True):
        flat = flat * count + part
    rows = x.reshape(-1, *rest)
    spread = flat.reshape(-1, *[1] * len(rest)).expand(-1, *rest)
    kinds = {"mul": "prod", "max": "amax", "min": "amin"}
    return rows.scatter_reduce(0, spread, values.reshape(-1, *rest), kinds[reduction]).view(x.shape)


@operator("OneHot", numbers=(1,))
def one_hot(places: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    """values[1] where the class is, values[0] elsewhere."""
    count = int(single(depth))
    at = axis % (places.ndim + 1)
    # Negative classes count from the end; others outside have none
    found = places.long().remainder(count)
    inside = (places >= -count) & (places < count)
    classes = torch.arange(count, device=places.device).view(*[1] * at, -1, *[1] * (places.ndim - at))
    hot = (found.unsqueeze(at) == classes) & inside.unsqueeze(at)
    return torch.where(hot, values[1], values[0])


@operator("Compress")
def compress(x: Tensor, chosen: Tensor, *, axis: int | None = None) -> Tensor:
    """The rows that are chosen."""
    places = chosen.nonzero().flatten()
    return x.flatten()[places] if axis is None else x.index_select(axis, places)


@operator("NonZero")
def non_zero(x: Tensor) -> Tensor:
    """The places of what is not 0, an axis in each row."""
    return x.nonzero().T if x.ndim else x.reshape(1).nonzero().T[:0]


@operator("Trilu", numbers=(1,))
def triangle(x: Tensor, k: Any = 0, *, upper: int = 1) -> Tensor:
    """The upper or lower triangle, from the k-th diagonal on; 0 elsewhere."""
    return x.triu(single(k or 0)) if upper else x.tril(single(k or 0))


# --- made from numbers ---


@operator("Constant")
def constant(
    *, real: torch.dtype, value: Any = None, value_float: Any = None, value_floats: Any = None, value_int: Any = None,
    value_ints: Any = None,
) -> Tensor:  # fmt: skip
    """What is stored in the node."""
    if isinstance(value, Tensor):
        return value
    for number in (value_float, value_floats):
        if number is not None:
            return torch.tensor(number, dtype=real)
    for number in (value_int, value_ints):
        if number is not None:
            return torch.tensor(number, dtype=torch.int64)
    raise NotRead("a Constant of strings or of few values")


@operator("ConstantOfShape", numbers=(0,))
def constant_of_shape(sizes: Sequence[int], *, real: torch.dtype, device: torch.device, value: Any = None) -> Tensor:
    """One value everywhere."""
    if value is None:
        return torch.zeros(list(sizes), dtype=real, device=device)
    kind = real if value.is_floating_point() else value.dtype
    return torch.full(list(sizes), value.item(), dtype=kind, device=device)


@operator("Range", numbers=(0, 1, 2))
def steps(
    start: Any, limit: Any, delta: Any, *, real: torch.dtype, device: torch.device, stash_type: int = 1
) -> Tensor:
    """From start to limit (exclusive) in steps."""
    ends = [single(end) for end in (start, limit, delta)]
    kind = real if any(isinstance(end, float) for end in ends) else torch.int64
    return torch.arange(*ends, dtype=kind, device=device)


@operator("EyeLike")
def eye(x: Tensor, *, real: torch.dtype, dtype: int | None = None, k: int = 0) -> Tensor:
    """1 on a diagonal, 0 elsewhere, in the shape of x."""
    kind = x.dtype if dtype is None else type_of(dtype, real)
    rows, columns = torch.arange(x.shape[0], device=x.device), torch.arange(x.shape[1], device=x.device)
    return (columns[None] - rows[:, None] == k).to(kind)
