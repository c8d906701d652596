"""Reads maxima and minima along axes and over windows, the logarithm of a sum of exponentials, and log softmax."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import EXP, LOG
from holdfast.numerics.bounds.affine import Add, Route, Scale
from holdfast.numerics.bounds.axes import Centre
from holdfast.numerics.bounds.max_pool import MaxPool
from holdfast.numerics.bounds.reader import Reader, Several, Value, without_batch

ALONE = (1, 1)
"""Strides and dilations that do nothing."""


class ExtremeHandlers(Reader):
    """Handlers of maxima, exact and soft, see `Operations`."""

    # --- along axes ---

    def _op_amax(self, x: Value, dim: int | Sequence[int] = (), keepdim: bool = False) -> Value:
        """The largest value along some axes: max pooling with a window that is as long as they are."""
        rows, outer = self._last(x, dim, keepdim)
        m, n = self.nodes[rows].shape
        # Rows as a picture of one channel: one window is one row
        picture = self.reshape_to(rows, (1, m, n))
        largest = self.then(MaxPool((1, n), (1, n), (0, 0), ALONE, False, (1, m, n)), picture)
        return Value(self.reshape_to(largest, without_batch(outer)), outer)

    def _op_amin(self, x: Value, dim: int | Sequence[int] = (), keepdim: bool = False) -> Value:
        largest = self._op_amax(self.negative(x), dim, keepdim)
        return self.negative(largest)

    def _op_max(self, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | Several:
        return self._extreme_along(x, dim, keepdim, largest=True)

    def _op_min(self, x: Value, dim: int | None = None, keepdim: bool = False) -> Value | Several:
        return self._extreme_along(x, dim, keepdim, largest=False)

    def _extreme_along(self, x: Value, dim: int | None, keepdim: bool, largest: bool) -> Value | Several:
        """With an axis, torch gives the values and where they are; the places are no function that can be bounded."""
        extreme = self._op_amax if largest else self._op_amin
        if dim is None:
            return extreme(x)
        # `getitem` 0 takes the values; 1 is refused if anything reads it
        return Several(extreme(x, dim, keepdim), lambda z: (z,), extreme=True)

    def negative(self, x: Value) -> Value:
        """Append -z."""
        minus = torch.full(self.nodes[x].shape, -1.0, dtype=torch.float64)
        return Value(self.then(Scale(minus, None), x), x.shape)

    def _last(self, x: Value, dim: int | Sequence[int], keepdim: bool) -> tuple[Value, tuple[int, ...]]:
        """Return a value as rows of what lies along some axes (none: all), and the shape without these."""
        axes = [dim] if isinstance(dim, int) else list(dim)
        reduced = sorted(a % len(x.shape) for a in axes) or list(range(len(x.shape)))
        others = [a for a in range(len(x.shape)) if a not in reduced]
        count = math.prod(x.shape[a] for a in reduced)
        kept = tuple(1 if a in reduced else size for a, size in enumerate(x.shape))
        outer = kept if keepdim else tuple(x.shape[a] for a in others)

        # The reduced axes go last, and become one
        def move(z: Tensor) -> Tensor:
            images = 1 if 0 in reduced else len(z)
            return z.permute(*others, *reduced).reshape(images, -1, count)

        moved = self.route(x, move)
        return Value(self.reshape_to(moved, (math.prod(kept), count)), (math.prod(kept), count)), outer

    # --- over windows ---

    def _op_adaptive_max_pool2d(self, x: Value, size: Sequence[int]) -> Several:
        inner = self.picture(x)
        if any(side % out for side, out in zip(inner[1:], size, strict=True)):
            raise self.refuse(f"adaptive max pooling of {list(inner[1:])} to {list(size)}, which does not divide it,")
        kernel = (inner[1] // size[0], inner[2] // size[1])
        largest = self.then(MaxPool(kernel, kernel, (0, 0), ALONE, False, inner), x)
        return Several(Value(largest, (*x.shape[:-2], *size)), lambda z: (z,), extreme=True)

    # --- soft ---

    def _op_logsumexp(self, x: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
        """Mean + log Σ exp(z - mean): what all values share passes without loss, and the sum is at least n."""
        rows, outer = self._last(x, dim, keepdim)
        _, logarithm = self._centre_rows(rows)
        mean = self.then(Route(lambda z: z.mean(-1), self.nodes[rows].shape, None), rows)
        return Value(self.reshape_to(self.then(Add(), mean, logarithm), without_batch(outer)), outer)

    def _op_log_softmax(self, x: Value, dim: int, *_: object, **__: object) -> Value:
        """(z - mean) - log Σ exp(z - mean), which is never positive."""
        moved = self.route(x, lambda z: z.movedim(dim, -1))
        n = moved.shape[-1]
        rows = self.reshape_to(moved, (math.prod(moved.shape) // n, n))
        centred, logarithm = self._centre_rows(rows)
        inner = self.nodes[logarithm].shape
        # [rows] to [rows, n], as the values are
        wide = self.then(Route(lambda z: z[..., None].expand(*z.shape, n), inner, None), logarithm)
        shares = self.then(Add(-1), centred, wide, known=(-math.inf, 0.0))
        return self.route(
            Value(self.reshape_to(shares, self.nodes[moved].shape), moved.shape), lambda z: z.movedim(-1, dim)
        )

    _op__log_softmax = _op_log_softmax

    def _centre_rows(self, rows: Value) -> tuple[Value, Value]:
        """Return z - mean of rows, and log Σ exp of that."""
        n = self.nodes[rows].shape[-1]
        centred = self.then(Centre(), rows)
        terms = self.then(EXP, centred)
        # z - mean has the mean 0, so its exponentials have at least exp(0) (Jensen)
        total = self.then(Route(lambda z: z.sum(-1), self.nodes[terms].shape, None), terms, known=(float(n), math.inf))
        return centred, self.then(LOG, total)
