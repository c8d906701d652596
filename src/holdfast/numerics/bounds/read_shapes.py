"""Reads operations that move values, or add them up with weights >= 0: shapes, parts, pooling, interpolation."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.node import map_aggregate

from holdfast.numerics.bounds.affine import Concat, Matrices, Reshape, ZeroPad
from holdfast.numerics.bounds.network import Node
from holdfast.numerics.bounds.reader import Reader, Several, Value, operation

SHAPES = {
    "T", "adjoint", "broadcast_to", "expand", "expand_as", "flatten", "flip", "fliplr", "flipud", "mT", "moveaxis",
    "movedim", "numpy_T", "permute", "ravel", "reshape", "reshape_as", "roll", "rot90", "squeeze", "swapaxes",
    "swapdims", "t", "transpose", "unflatten", "_unsafe_view", "unsqueeze", "view", "view_as",
}  # fmt: skip
"""Operations that keep all values, or copy them."""

PARTS = {
    "channel_shuffle", "diagonal", "gather", "im2col", "index", "index_select", "narrow", "native_channel_shuffle",
    "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat",
    "repeat_interleave", "replication_pad1d", "replication_pad2d", "replication_pad3d", "select", "slice", "take",
    "take_along_dim", "tile", "tril", "triu", "unfold",
}  # fmt: skip
"""Operations of which each value is one of the input's, or zero."""

SUMS = {
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "col2im", "cumsum", "mean", "sum", "trace", "upsample_bilinear2d", "_upsample_bilinear2d_aa", "upsample_linear1d",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_trilinear3d",
}  # fmt: skip
"""Operations that add up with weights >= 0."""

OUTPUTS = {"chunk", "split", "split_with_sizes", "tensor_split", "unbind", "unsafe_chunk", "unsafe_split"}
"""Operations with several outputs, each a part of the input."""

SAME = {"alias", "clone", "contiguous", "detach", "lift_fresh_copy", "to", "_to_copy", "type_as", "identity"}
"""Operations that change no value; another precision than float64 is refused where encoder and network are compared."""


class ShapeHandlers(Reader):
    """Handlers of operations that move values, see `Operations`."""

    def read_other(self, name: str, *arguments: Any, **options: Any) -> int | Several:
        """Append an operation of the lists above, as the function that torch has for it."""
        assert self.at is not None
        if name not in SHAPES | PARTS | SUMS | OUTPUTS | SAME:
            raise self.refuse(name)
        x, *rest = arguments
        if name in SAME:
            return x
        if not isinstance(x, Value) or any(self.depends(*rest, *options.values())):
            raise self.refuse(f"{name} at places that depend on the image")
        target: Any = self.at.target

        there = _on_device((rest, options))

        # The graph's own operation with its own arguments
        def function(z: Tensor) -> Any:
            arguments, named = there(z.device)
            return target(z, *arguments, **named)

        return Several(x, function) if name in OUTPUTS else self.route(x, function)

    def _op_getitem(self, several: Several, index: int) -> int:
        if several.extreme and index:
            if self.at is not None and self.at.users:
                raise self.refuse("the places of the largest or smallest values")
            return several.value  # which nothing reads
        return self.route(several.value, lambda z: several.function(z)[index])

    def _op_expand(self, x: Value, *_: Any, **__: Any) -> int:
        """Expand; the norm of a normalised head stays what it is, see `_normalise`."""
        readers = self.at.users if self.at is not None else {}
        if self.nodes[x].shape != self.shape() and all("div" in operation(user) for user in readers):
            return x
        shape = self.full_shape()
        return self.route(x, lambda z: z.expand(shape))

    _op_expand_as = _op_expand

    def _op_cat(self, values: Sequence[Value | Tensor], dim: int = 0) -> int:
        """Put values side by side, then constants between them."""
        axis = dim % len(self.full_shape())
        values = [v for v in values if isinstance(v, Value) or v.numel()]
        parts = [v for v in values if isinstance(v, Value)]
        if not all(bool(v.isfinite().all()) for v in values if isinstance(v, Tensor)):
            raise self.refuse("a constant that is NaN or infinite")
        joined = parts[0] if len(parts) == 1 else self._side_by_side(parts, axis)
        lengths, there = [v.shape[axis] for v in parts], _on_device(values)

        def insert(z: Tensor) -> Tensor:
            pieces = iter(z.split(lengths, axis))
            constants = there(z.device)
            return torch.cat([v.to(z) if isinstance(v, Tensor) else next(pieces) for v in constants], axis)

        return joined if len(parts) == len(values) else self.route(joined, insert)

    _op_concat = _op_concatenate = _op_cat

    def _op_stack(self, values: Sequence[Value | Tensor], dim: int = 0) -> int:
        """Concatenate along an axis of length 1 that each gets first."""
        axis = dim % len(self.full_shape())
        wide = [
            v.unsqueeze(axis) if isinstance(v, Tensor) else self.route(v, lambda z: z.unsqueeze(axis)) for v in values
        ]
        return self._op_cat(wide, axis)

    def _side_by_side(self, parts: list[Value], axis: int) -> Value:
        lengths = [part.shape[axis] for part in parts]
        full = (*parts[0].shape[:axis], sum(lengths), *parts[0].shape[axis + 1 :])
        if axis == 0:  # of which values have none where its length is 1
            lacking = [self.nodes[v].shape != v.shape for v in parts]
            parts = [self._whole(v) if short else v for v, short in zip(parts, lacking, strict=True)]
        # Operations see values with a batch in front, which stands for a first axis of length 1
        batched = full[0] == 1
        return self.append(Concat(axis + (not batched), tuple(lengths)), parts, full)

    def _whole(self, value: Value) -> Value:
        """Return a value with the first axis of length 1 that values have not."""
        self.nodes.append(Node(Reshape(self.nodes[value].shape, value.shape), (value,), value.shape, self.where()))
        return Value(len(self.nodes) - 1, value.shape)

    def _op_pad(self, x: Value, padding: Sequence[int], mode: str = "constant", value: float | None = None) -> int:
        zeros = mode == "constant" and not value and min(padding) >= 0
        if zeros and len(padding) == 4 and len(self.nodes[x].shape) == 3:  # which a convolution takes over
            return self.append(ZeroPad(tuple(padding), self.nodes[x].shape), (x,))
        return self.route(x, lambda z: F.pad(z, padding, mode, value))

    def _op_constant_pad_nd(self, x: Value, padding: Sequence[int], value: float = 0.0) -> int:
        return self._op_pad(x, padding, "constant", value)

    def _op_upsample_bicubic2d(self, x: Value, *rest: Any, **options: Any) -> int:
        """Weights of both signs, a matrix for each axis: those of images that are constant along the other."""
        assert self.at is not None
        target: Any = self.at.target
        _, _, height, width = x.shape
        # Images that are 1 in one row (or one column) and 0 elsewhere: what they become is the
        # matrix of that axis
        rows = torch.eye(height, dtype=torch.float64)[:, None, :, None].expand(-1, 1, -1, width)
        columns = torch.eye(width, dtype=torch.float64)[:, None, None, :].expand(-1, 1, height, -1)
        of_rows, of_columns = target(rows, *rest, **options)[:, 0, :, 0], target(columns, *rest, **options)[:, 0, 0]
        return self.then(Matrices(of_columns, left=False), self.then(Matrices(of_rows.T, left=True), x))

    _op__upsample_bicubic2d_aa = _op_upsample_bicubic2d

    def _op_dropout(self, x: Value, p: float, train: bool) -> int:
        if train:
            raise self.refuse("dropout that is switched on")
        return x

    _op_feature_dropout = _op_alpha_dropout = _op_dropout


def _on_device(values: Any) -> Callable[[torch.device], Any]:
    """Return what gives some values with their tensors on a device, to which they are copied once."""

    @cache
    def there(device: torch.device) -> Any:
        return map_aggregate(values, lambda value: value.to(device) if isinstance(value, Tensor) else value)

    return there
