"""Linear forms on the values of a network: rows for every image, dense or as patches around a position.

A form is what bound propagation carries backwards: Σ coefs · values, plus a constant kept elsewhere.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.activations import LinearRelaxation, MaxPool
from holdfast.numerics.bounds.affine import Affine, Conv, Scale


def _weighed(coefs: Tensor, relaxation: LinearRelaxation) -> tuple[Tensor, Tensor, Tensor]:
    """Return the coefficients below an activation, and the positive and negative parts of those above it."""
    up, down = coefs.clamp_min(0), coefs.clamp_max(0)
    return torch.addcmul(down * relaxation.above_slope, up, relaxation.below_slope), up, down


@dataclass(frozen=True, eq=False)
class Dense:
    """Rows that may read every value: coefs [B, R, *shape]; B = 1 where all images share them."""

    coefs: Tensor

    def to(self, dtype: torch.dtype) -> "Dense":
        """Return the forms in another precision."""
        return Dense(self.coefs.to(dtype))

    def __add__(self, addend: "Form") -> "Dense":
        """Add the forms of two paths, row by row."""
        return Dense(self.coefs + (addend if isinstance(addend, Dense) else addend.dense()).coefs)

    def dot(self, values: Tensor) -> Tensor:
        """Return Σ coefs · values, [B, R], for values [*shape] or [B, *shape]."""
        flat = values.reshape(len(values), -1, 1) if values.ndim == self.coefs.ndim - 1 else values.reshape(1, -1, 1)
        return (self.coefs.flatten(2) @ flat).squeeze(-1)

    def through(self, operation: Affine) -> list["Form"]:
        """Return the forms on each input of an affine operation."""
        batch, rows = self.coefs.shape[:2]
        return [Dense(a.unflatten(0, (batch, rows))) for a in operation.adjoint(self.coefs.flatten(0, 1))]

    def broadcast(self, relaxation: LinearRelaxation) -> LinearRelaxation:
        """Return the relaxation of the values that these forms read, broadcast over rows."""
        return LinearRelaxation(*(None if t is None else t[:, None] for t in _parts(relaxation)))  # pyright: ignore[reportArgumentType]

    def relaxed(self, relaxation: LinearRelaxation, alphas: Tensor | None = None) -> tuple["Dense", Tensor]:
        """Return forms that lie below these once σ is replaced by its relaxation, and their constants [B, R].

        Args:
            relaxation: that of σ.
            alphas: slopes below, where those are free, [B, R, *shape].
        """
        chosen = relaxation if alphas is not None else replace(relaxation, free=None)
        relaxation = _with_alphas(self.broadcast(chosen), alphas)
        coefs, up, down = _weighed(self.coefs, relaxation)
        constant = (down * relaxation.above).flatten(2).sum(2)
        if relaxation.below is not None:
            constant = constant + (up * relaxation.below).flatten(2).sum(2)
        return Dense(coefs), constant

    def pooled(self, chosen: Tensor, rules: Tensor, ceiling: Tensor, operation: MaxPool) -> tuple["Dense", Tensor]:
        """Return forms below these once each maximum is replaced by one input, or by its ceiling, see `MaxPool`."""
        down = self.coefs.clamp_max(0)
        kept = torch.where(rules[:, None], self.coefs, self.coefs.clamp_min(0))
        constant = torch.where(rules[:, None], 0.0, down * ceiling[:, None]).flatten(2).sum(2)
        batch, rows, channels = kept.shape[:3]
        coefs = kept.new_zeros(batch, rows, channels, operation.inner[1] * operation.inner[2])
        index = chosen[:, None].expand_as(kept).flatten(3)
        return Dense(coefs.scatter_add(3, index, kept.flatten(3)).unflatten(3, operation.inner[1:])), constant

    def windows(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return (coefs, values) flattened so that values broadcast over rows: [B, R, n] and [B, n]."""
        return self.coefs.flatten(2), values.flatten(1)

    def rows(self, values: Tensor) -> Tensor:
        """Return a number per row as it stands, [B, R]."""
        return values


def _parts(relaxation: LinearRelaxation) -> tuple[Tensor | None, ...]:
    return relaxation.below_slope, relaxation.below, relaxation.above_slope, relaxation.above, relaxation.free


def _with_alphas(relaxation: LinearRelaxation, alphas: Tensor | None) -> LinearRelaxation:
    if alphas is None or relaxation.free is None:
        return relaxation
    return replace(relaxation, below_slope=torch.where(relaxation.free, alphas, relaxation.below_slope))


@dataclass(frozen=True, eq=False)
class Patches:
    """Rows that read a window each: coefs [B, L, O, C, h, w], for O rows at each of L positions of an output.

    The window of the row at output position (i, j) begins at (i · stride - top, j · stride - left) of the values.
    B and L are 1 where images, or positions, share coefficients. Coefficients outside the values do not count.

    Attributes:
        coefs: as above.
        at: the output positions, [L, 2].
        stride: from one output position to the next, in values.
        top: rows by which the window of position 0 begins before the values.
        left: columns likewise.
        shape: (channels, height, width) of the values.
        spills: whether coefficients outside the values may differ from zero.
    """

    coefs: Tensor
    at: Tensor
    stride: tuple[int, int]
    top: int
    left: int
    shape: tuple[int, int, int]
    spills: bool = False

    def to(self, dtype: torch.dtype) -> "Patches":
        """Return the forms in another precision."""
        return replace(self, coefs=self.coefs.to(dtype))

    def __add__(self, addend: "Form") -> "Form":
        """Add the forms of two paths, row by row: as patches where both read windows at the same distances."""
        if not isinstance(addend, Patches) or addend.stride != self.stride:
            return self.dense() + addend
        top, left = max(self.top, addend.top), max(self.left, addend.left)
        bottom = max(p.coefs.shape[-2] - p.top for p in (self, addend))
        right = max(p.coefs.shape[-1] - p.left for p in (self, addend))
        coefs = self._reaching(top, bottom, left, right) + addend._reaching(top, bottom, left, right)
        spills = self.spills or addend.spills
        return Patches(coefs, self.at, self.stride, top, left, self.shape, spills)._or_dense()

    def _reaching(self, top: int, bottom: int, left: int, right: int) -> Tensor:
        """Return the coefficients on a larger window."""
        h, w = self.coefs.shape[-2:]
        return F.pad(self.coefs, (left - self.left, right - w + self.left, top - self.top, bottom - h + self.top))

    def _or_dense(self) -> "Form":
        """Return dense forms where windows have grown so large that they save nothing."""
        window, image = self.coefs.shape[-2:].numel(), self.shape[1] * self.shape[2]
        return self if window < image else self.dense()

    def cut(self, values: Tensor) -> Tensor:
        """Return the windows of values [B, C, H, W], zero outside: [B, L, C, h, w]."""
        h, w = self.coefs.shape[-2:]
        (sy, sx), (last_y, last_x) = self.stride, self.at.amax(0).tolist()
        height, width = values.shape[-2:]
        bottom, right = last_y * sy + h - self.top - height, last_x * sx + w - self.left - width
        padded = F.pad(values, (self.left, right, self.top, bottom))
        windows = padded.unfold(2, h, sy).unfold(3, w, sx).permute(0, 2, 3, 1, 4, 5)  # [B, Ho, Wo, C, h, w]
        rows = windows.reshape(len(values), -1, *windows.shape[3:])  # copied once, then taken row by row
        return rows.index_select(1, self.at[:, 0] * windows.shape[2] + self.at[:, 1])

    def dot(self, values: Tensor) -> Tensor:
        """Return Σ coefs · values, [B, L · O], for values [*shape] or [B, *shape]."""
        windows = self.cut(values.expand(1, *self.shape) if values.ndim == 3 else values)
        return (self.coefs.flatten(3) @ windows.flatten(2)[..., None]).squeeze(-1).flatten(1)

    def through(self, operation: Affine) -> list["Form"]:
        """Return the forms on each input of an affine operation."""
        if isinstance(operation, Conv):
            coefs = self.coefs
            if self.spills:  # the padding of the convolution after this one, which this one does not compute
                coefs = coefs * self.cut(coefs.new_ones(1, 1, *self.shape[1:]))[:, :, None]
            flat = _transposed(operation, coefs.flatten(0, 2))
            (sy, sx), (left, _, top, _) = operation.stride, operation.padding
            patches = Patches(
                flat.unflatten(0, coefs.shape[:3]),
                self.at,
                (self.stride[0] * sy, self.stride[1] * sx),
                self.top * sy + top,
                self.left * sx + left,
                operation.inner,
                any(operation.padding),
            )
            return [patches._or_dense()]
        if isinstance(operation, Scale):
            factor = self.cut(operation.factor.expand(1, *self.shape))
            return [self._with(self.coefs * factor[:, :, None])]
        return self.dense().through(operation)

    def _with(self, coefs: Tensor) -> "Patches":
        """Return the same windows with coefficients that are zero outside the values."""
        return Patches(coefs, self.at, self.stride, self.top, self.left, self.shape)

    def broadcast(self, relaxation: LinearRelaxation) -> LinearRelaxation:
        """Return the relaxation of the values that these forms read, broadcast over rows."""
        cut = (None if t is None else self.cut(t)[:, :, None] for t in _parts(relaxation))
        return LinearRelaxation(*cut)  # pyright: ignore[reportArgumentType]

    def relaxed(self, relaxation: LinearRelaxation, alphas: Tensor | None = None) -> tuple["Patches", Tensor]:
        """Return forms that lie below these once σ is replaced by its relaxation, and their constants [B, L · O].

        Args:
            relaxation: that of σ.
            alphas: slopes below, where those are free, in the shape of `coefs`.
        """
        chosen = relaxation if alphas is not None else replace(relaxation, free=None)
        relaxation = _with_alphas(self.broadcast(chosen), alphas)
        coefs, up, down = _weighed(self.coefs, relaxation)
        constant = (down.flatten(3) @ relaxation.above.flatten(3).transpose(2, 3)).squeeze(-1)
        if relaxation.below is not None:
            constant = constant + (up.flatten(3) @ relaxation.below.flatten(3).transpose(2, 3)).squeeze(-1)
        return self._with(coefs), constant.flatten(1)

    def pooled(self, chosen: Tensor, rules: Tensor, ceiling: Tensor, operation: MaxPool) -> tuple[Dense, Tensor]:
        """See `Dense.pooled`."""
        return self.dense().pooled(chosen, rules, ceiling, operation)

    def windows(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return (coefs, values) flattened so that values broadcast over rows: [B, L, O, n] and [B, L, n]."""
        return self.coefs.flatten(3), self.cut(values).flatten(2)

    def rows(self, values: Tensor) -> Tensor:
        """Return a number per position and row, [B, L, O], as [B, L · O]."""
        return values.flatten(1)

    def dense(self) -> Dense:
        """Return the same rows, each over all values."""
        batch, _, rows, channels, h, w = self.coefs.shape
        _, height, width = self.shape
        device = self.coefs.device
        y = self.at[:, :1] * self.stride[0] - self.top + torch.arange(h, device=device)
        x = self.at[:, 1:] * self.stride[1] - self.left + torch.arange(w, device=device)
        inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None]
        index = torch.where(inside, y[:, :, None] * width + x[:, None], height * width).flatten(1)
        coefs = self.coefs.expand(batch, len(self.at), rows, channels, h, w).flatten(4)
        index = index[None, :, None, None].expand_as(coefs)
        canvas = coefs.new_zeros(*coefs.shape[:4], height * width + 1).scatter_add(4, index, coefs)
        return Dense(canvas[..., :-1].unflatten(-1, (height, width)).flatten(1, 2))


Form = Dense | Patches


def _transposed(operation: Conv, windows: Tensor) -> Tensor:
    """Return `operation.transposed(windows)`: for many small windows as one matrix product, which is faster."""
    size = windows[0].numel()
    if len(windows) < size:
        return operation.transposed(windows)
    matrix = operation.local(windows.shape[2], windows.shape[3])
    if matrix[0].numel() * windows.shape[1] > WASTE * operation.weight.numel():
        return operation.transposed(windows)
    return (windows.flatten(1) @ matrix.flatten(1)).unflatten(1, matrix.shape[1:])


WASTE = 8
"""How many times more multiplications a matrix product may make than a convolution."""
