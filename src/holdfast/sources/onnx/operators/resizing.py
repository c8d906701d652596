"""Pictures in another size, and read at points between pixels: every mode that ONNX has for it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.sources.onnx.operator import NotRead, axes_of, operator

F32 = np.float32


@operator("Resize", numbers=(1, 2, 3))
def resize(
    x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None, *, version: int, mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
    extrapolation_value: float = 0.0, nearest_mode: str = "round_prefer_floor", antialias: int = 0, axes: Any = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:  # fmt: skip
    """Each axis by itself, as a product with the matrix of weights that ONNX defines."""
    if version == 10:  # its second input is what later ones have as the third
        roi, scales = None, roi
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    over = list(range(x.ndim)) if not axes else axes_of(list(axes), x.ndim)
    if scales:
        # In float32, as runtimes do: rounding decides between sizes
        outs = [int(F32(x.shape[axis]) * F32(scale)) for axis, scale in zip(over, scales, strict=True)]
    elif sizes:
        scales = [float(F32(size) / F32(x.shape[axis])) for axis, size in zip(over, sizes, strict=True)]
        outs = list(sizes)
        if keep_aspect_ratio_policy != "stretch":
            pick = min if keep_aspect_ratio_policy == "not_larger" else max
            # One scale for all axes, the smaller or the larger one
            scale = pick(scales)
            scales = [scale] * len(over)
            outs = [math.floor(x.shape[axis] * scale + 0.5) for axis in over]
    else:
        raise NotRead("a Resize without scales and sizes")
    where = coordinate_transformation_mode
    if where == "tf_crop_and_resize" and not roi:
        raise NotRead("a Resize of a region that is not known")
    fast = _by_torch(x, over, scales, outs, mode, where, cubic_coeff_a, exclude_outside, antialias)
    if fast is not None:
        return fast
    for place, (axis, scale, out) in enumerate(zip(over, scales, outs, strict=True)):
        count = x.shape[axis]
        if out == count and scale == 1 and where != "tf_crop_and_resize":
            continue
        # Starts of all axes, then their ends
        region = (roi[place], roi[len(over) + place]) if where == "tf_crop_and_resize" else (0.0, 1.0)
        points = [_source(i, count, out, scale, where, region) for i in range(out)]
        outside = [not 0 <= point <= count - 1 for point in points] if where == "tf_crop_and_resize" else []
        if mode == "nearest":
            kept = torch.tensor([_nearest(point, nearest_mode, count) for point in points], device=x.device)
            x = x.index_select(axis, kept)
        else:
            rows = [_weights(point, count, scale, mode, cubic_coeff_a, exclude_outside, antialias) for point in points]
            # [out, in]: a row for each place of the output
            matrix = torch.tensor(rows, dtype=torch.float64).to(x)
            # Along the last axis, and back
            x = (x.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
        if any(outside):
            shape = [-1 if i == axis else 1 for i in range(x.ndim)]
            x = torch.where(torch.tensor(outside, device=x.device).view(shape), extrapolation_value, x)
    return x


def _by_torch(
    x: Tensor, over: Sequence[int], scales: Sequence[float], outs: Sequence[int], mode: str, where: str, a: float,
    exclude_outside: int, antialias: int,
) -> Tensor | None:  # fmt: skip
    """Return what torch has for it: pictures, scaled by what their sizes say, in a mode that both know alike."""
    wanted = dict(zip(over, zip(scales, outs, strict=True), strict=True))
    if (
        # torch scales pictures alone, and not batch or channels
        x.ndim != 4
        or antialias
        or exclude_outside
        or any(wanted.get(i, (1, x.shape[i]))[1] != x.shape[i] for i in (0, 1))
    ):
        return None
    sides = [wanted.get(i, (1.0, x.shape[i])) for i in (2, 3)]
    exact = all(out == x.shape[i] * scale for i, (scale, out) in zip((2, 3), sides, strict=True))
    # torch knows the scale from the sizes, so both must say the same
    size = [out for _, out in sides]
    corners = where == "align_corners"
    halves = where == "half_pixel" or (where == "pytorch_half_pixel" and min(size) > 1)
    if not (corners or (halves and exact)) or mode not in ("linear", "cubic") or (mode == "cubic" and a != -0.75):
        return None
    if not all(isinstance(n, int) for n in size) or (corners and min(size) < 2):
        return None
    return F.interpolate(x, size=size, mode="bilinear" if mode == "linear" else "bicubic", align_corners=corners)


def _source(place: int, length: int, out: int, factor: float, where: str, region: tuple[float, float]) -> float:
    """Return the place in the input of a place in the output, in float32 as runtimes compute it."""
    i, count, size, scale, half = F32(place), F32(length), F32(out), F32(factor), F32(0.5)
    match where:
        case "half_pixel":
            return float((i + half) / scale - half)
        case "half_pixel_symmetric":  # the output as wide as its size says, in the middle
            return float(count / 2 * (1 - size / (scale * count)) + (i + half) / scale - half)
        case "pytorch_half_pixel":
            return float((i + half) / scale - half) if out > 1 else 0.0
        case "align_corners":
            return float(i * (count - 1) / (size - 1)) if out > 1 else 0.0
        case "asymmetric":
            return float(i / scale)
        case "tf_half_pixel_for_nn":
            return float((i + half) / scale)
        case "tf_crop_and_resize":
            start, end = map(F32, region)
            if out > 1:
                return float(start * (count - 1) + i * (end - start) * (count - 1) / (size - 1))
            return float(half * (start + end) * (count - 1))
    raise NotRead(f"a Resize with coordinates {where}")


def _nearest(point: float, rule: str, count: int) -> int:
    match rule:
        case "round_prefer_floor" | "":
            place = math.ceil(point - 0.5)
        case "round_prefer_ceil":
            place = math.floor(point + 0.5)
        case "floor":
            place = math.floor(point)
        case "ceil":
            place = math.ceil(point)
        case _:
            raise NotRead(f"a Resize to the nearest by {rule}")
    return min(max(place, 0), count - 1)


def _weights(
    point: float, count: int, scale: float, mode: str, a: float, exclude_outside: int, antialias: int
) -> list[float]:
    """Return how much each place of an axis counts for a point between them."""
    # Made smaller, the kernel is as wide as a pixel of the result, against aliasing
    wide = min(scale, 1.0) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) / wide
    kernel = _linear if mode == "linear" else lambda d: _cubic(d, a)
    if mode not in ("linear", "cubic"):
        raise NotRead(f"a Resize of mode {mode}")
    row = [0.0] * count
    total = 0.0
    # Places that the kernel reaches
    for place in range(math.floor(point - reach) + 1, math.ceil(point + reach)):
        weight = kernel((place - point) * wide)
        inside = 0 <= place < count
        if not inside and exclude_outside:
            continue
        total += weight
        # What lies outside counts for the edge
        row[min(max(place, 0), count - 1)] += weight
    if exclude_outside or antialias:
        return [weight / total for weight in row]
    return row


def _linear(distance: float) -> float:
    return max(0.0, 1 - abs(distance))


def _cubic(distance: float, a: float) -> float:
    d = abs(distance)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0


@operator("Upsample", numbers=(1,), formerly={"scales": 1})
def upsample(
    x: Tensor, scales: Any = None, *, mode: str = "nearest", height_scale: float | None = None,
    width_scale: float | None = None,
) -> Tensor:  # fmt: skip
    """As Resize with "asymmetric" coordinates, which rounds down."""
    scales = [1.0, 1.0, height_scale, width_scale] if scales is None else scales
    return resize(
        x, None, scales, version=11, mode="nearest" if mode == "nearest" else "linear", nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip


@operator("GridSample")
def sample(
    x: Tensor, grid: Tensor, *, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Tensor:
    """Pictures read at points."""
    names = {
        "linear": "bilinear",
        "bilinear": "bilinear",
        "nearest": "nearest",
        "cubic": "bicubic",
        "bicubic": "bicubic",
    }
    return F.grid_sample(x, grid, names[mode], padding_mode, bool(align_corners))


@operator("AffineGrid", numbers=(1,))
def affine_grid(theta: Tensor, size: Sequence[int], *, align_corners: int = 0) -> Tensor:
    """The points of a picture that is turned, scaled and moved."""
    return F.affine_grid(theta, list(size), bool(align_corners))
