"""Sums, extremes and norms over axes, softmax, and sums along an axis."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import axes_of, is_real, operator, single

REDUCTIONS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip


@operator(*REDUCTIONS, numbers=(1,), formerly={"axes": 1})
def reduce(x: Tensor, axes: Any = None, *, op: str, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Tensor:
    """Over some axes, or over all where none is named."""
    if not axes and noop_with_empty_axes:
        return _each(x, op)
    over, keep = axes_of(axes or None, x.ndim), bool(keepdims)
    match op:
        case "ReduceMax" | "ReduceMin" if x.dtype == torch.bool:
            found = x.long().amax(over, keep) if op == "ReduceMax" else x.long().amin(over, keep)
            return found.bool()
        case "ReduceMax":
            return x.amax(over, keep)
        case "ReduceMin":
            return x.amin(over, keep)
        case "ReduceMean":
            return x.mean(over, keep) if is_real(x) else (x.double().mean(over, keep)).to(x.dtype)
        case "ReduceProd":
            # One axis at a time, from the last, so that numbers of others stay true
            for axis in sorted(over, reverse=True):
                x = x.prod(axis, keep, dtype=x.dtype)
            return x
        case "ReduceLogSumExp":
            return x.logsumexp(over, keep)
        case "ReduceL2":
            return torch.linalg.vector_norm(x, dim=over, keepdim=keep)
        case _:
            parts = {"ReduceL1": torch.abs, "ReduceSumSquare": torch.square}.get(op)
            total = (x if parts is None else parts(x)).sum(over, keep, dtype=x.dtype)
            return total.log() if op == "ReduceLogSum" else total


def _each(x: Tensor, op: str) -> Tensor:
    """Return what is left where no axis is reduced."""
    if op in ("ReduceL1", "ReduceL2"):
        return x.abs()
    return x.square() if op == "ReduceSumSquare" else x.log() if op == "ReduceLogSum" else x


@operator("ArgMax", "ArgMin")
def place(x: Tensor, *, op: str, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Where the largest or smallest is along an axis: the first, or the last of equal ones."""
    axis = axes_of(axis, x.ndim)[0]
    values = x.flip(axis) if select_last_index else x
    # torch does not say which of equal ones it finds
    best = values.amax(axis, True) if op == "ArgMax" else values.amin(axis, True)
    found = (values == best).long().argmax(axis, keepdim=bool(keepdims))
    return x.shape[axis] - 1 - found if select_last_index else found


@operator("CumSum", "CumProd", numbers=(1,))
def along(x: Tensor, axis: Any, *, op: str, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Sums or products of all up to each, or of all before it."""
    (at,) = axes_of(single(axis), x.ndim)
    x = x.flip(at) if reverse else x
    sums = (x.cumsum if op == "CumSum" else x.cumprod)(at, dtype=x.dtype)
    if exclusive:
        empty = torch.zeros_like(sums) if op == "CumSum" else torch.ones_like(sums)
        # Moved by one, with what nothing adds up to in front
        sums = torch.cat([empty.narrow(at, 0, 1), sums.narrow(at, 0, x.shape[at] - 1)], at)
    return sums.flip(at) if reverse else sums


@operator("Softmax", "LogSoftmax", "Hardmax")
def shares(x: Tensor, *, op: str, version: int, axis: int | None = None) -> Tensor:
    """Along one axis; up to version 12 along all from it on."""
    at = (1 if version < 13 else -1) if axis is None else axis
    (first,) = axes_of(at, x.ndim)
    # As a matrix of all axes from one on
    together = version < 13 and first < x.ndim - 1
    rows = x.flatten(first) if together else x
    along_axis = first if together else at
    if op == "Hardmax":
        best = (rows == rows.amax(along_axis, True)).long().argmax(along_axis, keepdim=True)
        found = torch.zeros_like(rows).scatter(along_axis, best, 1.0)
    else:
        found = (F.softmax if op == "Softmax" else F.log_softmax)(rows, along_axis)
    return found.view(x.shape) if together else found


@operator("TopK", numbers=(1,), formerly={"k": 1})
def largest(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, Tensor]:
    """The k largest or smallest along an axis and their places; of equal ones the first."""
    (at,) = axes_of(axis, x.ndim)
    # Stable, so that of equal ones the first comes first
    order = x.sort(dim=at, descending=bool(largest), stable=True)
    return order.values.narrow(at, 0, single(k)), order.indices.narrow(at, 0, single(k))
