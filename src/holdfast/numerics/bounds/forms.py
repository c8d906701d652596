"""Linear forms on the values of a network: rows for every image, dense or as patches around a position.

A form is what bound propagation carries backwards: Σ coefs · values, plus a constant kept elsewhere.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.affine import Add, Affine, Conv, Scale
from holdfast.numerics.bounds.max_pool import Chosen, MaxPool
from holdfast.numerics.bounds.relaxation import LinearRelaxation


def _relax_coefs(coefs: Tensor, relaxation: LinearRelaxation) -> tuple[Tensor, Tensor, Tensor]:
    """Return the coefficients below an activation, and the positive and negative parts of those above it."""
    # CROWN: Λ⁺ takes the line below and Λ⁻ the one above
    up, down = coefs.clamp_min(0), coefs.clamp_max(0)
    return torch.addcmul(down * relaxation.above_slope, up, relaxation.below_slope), up, down


def _dot(coefs: Tensor, values: Tensor) -> Tensor:
    """Return Σ coefs · values of each position's window, [B, L, O], for values [B, L, 1 or O, C, h, w]."""
    # Rows that share values: a matrix product instead of all single products, [B, L, O, n] @ [B, L, n, 1]
    if values.shape[2] == 1:
        return (coefs.flatten(3) @ values.flatten(3).transpose(2, 3)).squeeze(-1)
    return (coefs * values).flatten(3).sum(3)


def _by_row(values: Tensor) -> Tensor:
    """Return [B, R, *shape] as [B, R, n]; a node may be a single number, without an axis of its own."""
    return values.reshape(*values.shape[:2], -1)


@dataclass(frozen=True, eq=False)
class Dense:
    """Rows that may read every value: coefs [B, R, *shape]; B = 1 where all images share them."""

    coefs: Tensor

    def to(self, dtype: torch.dtype) -> "Dense":
        """Return the forms in another precision."""
        return Dense(self.coefs.to(dtype))

    def __add__(self, addend: "Form") -> "Dense":
        """Add the forms of two paths, row by row."""
        return Dense(self.coefs + addend.dense().coefs)

    def dense(self) -> "Dense":
        """Return the same rows: they are dense."""
        return self

    def dot(self, values: Tensor) -> Tensor:
        """Return Σ coefs · values, [B, R], for values [*shape] or [B, *shape]."""
        # [B, n, 1] of each image, or [1, n, 1] of all
        flat = values.reshape(len(values), -1, 1) if values.ndim == self.coefs.ndim - 1 else values.reshape(1, -1, 1)
        return (_by_row(self.coefs) @ flat).squeeze(-1)

    def through(self, operation: Affine) -> list["Form"]:
        """Return the forms on each input of an affine operation."""
        # To an operation, rows are images: [B · R, *outer]
        batch, rows = self.coefs.shape[:2]
        return [Dense(a.unflatten(0, (batch, rows))) for a in operation.adjoint(self.coefs.flatten(0, 1))]

    def spread(self, values: Tensor) -> Tensor:
        """Return values [B, *shape] broadcast over rows."""
        return values[:, None]

    def relax(
        self, relaxation: LinearRelaxation, lower: Tensor | None = None, upper: Tensor | None = None
    ) -> tuple["Dense", Tensor]:
        """Return forms that lie below these once σ is replaced by its relaxation, and their constants [B, R].

        Args:
            relaxation: that of σ.
            lower: α of the lines below, [B, R, *shape]; None: the usual lines.
            upper: that of the lines above.
        """
        # The two lines at α of each row, and what becomes of the coefficients
        relaxation = relaxation.over(self.spread, lower, upper)
        coefs, up, down = _relax_coefs(self.coefs, relaxation)
        # What the lines add: Λ⁻ · above, and Λ⁺ · below, which is zero for ReLU
        constant = _by_row(down * relaxation.above).sum(2)
        if relaxation.below is not None:
            constant = constant + _by_row(up * relaxation.below).sum(2)
        return Dense(coefs), constant

    def relax_max_pool(self, chosen: Chosen, operation: MaxPool) -> tuple["Dense", Tensor]:
        """Return forms below these once each maximum is replaced by one input, or by its ceiling, see `MaxPool`."""
        # From below the chosen input stands for the maximum, or the floor where there is one; from above it does
        # where it rules, else the ceiling
        rules, up, down = chosen.rules[:, None], self.coefs.clamp_min(0), self.coefs.clamp_max(0)
        level = down * chosen.ceiling[:, None]
        if chosen.floor is not None:
            level, up = level + up * chosen.floor[:, None], torch.zeros_like(up)
        kept = torch.where(rules, self.coefs, up)
        constant = torch.where(rules, 0.0, level).flatten(2).sum(2)
        batch, rows, channels = kept.shape[:3]
        coefs = kept.new_zeros(batch, rows, channels, operation.inner[1] * operation.inner[2])
        # Windows that overlap may choose one input: its coefficients add up. [B, R, C, H · W]
        index = chosen.place[:, None].expand_as(kept).flatten(3)
        return Dense(coefs.scatter_add(3, index, kept.flatten(3)).unflatten(3, operation.inner[1:])), constant

    def windows(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return (coefs, values) flattened so that values broadcast over rows: [B, R, n] and [B, n]."""
        return _by_row(self.coefs), values.reshape(len(values), -1)

    def rows(self, values: Tensor) -> Tensor:
        """Return a number per row as it stands, [B, R]."""
        return values


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
        of: which coefficients each position reads, [L], of those that `coefs` has along its second axis; None: its own.
        paired: whether rows come as pairs, a form and its opposite.
    """

    coefs: Tensor
    at: Tensor
    stride: tuple[int, int]
    top: int
    left: int
    shape: tuple[int, int, int]
    spills: bool = False
    of: Tensor | None = None
    paired: bool = False

    def to(self, dtype: torch.dtype) -> "Patches":
        """Return the forms in another precision."""
        return replace(self, coefs=self.coefs.to(dtype))

    def each(self) -> "Patches":
        """Return the same rows, where every position has coefficients of its own or all share them."""
        return replace(self, coefs=self._read(self.coefs), of=None)

    def _read(self, coefs: Tensor) -> Tensor:
        """Return the coefficients that each position reads."""
        return coefs if self.of is None else coefs.index_select(1, self.of)

    def __add__(self, addend: "Form") -> "Form":
        """Add the forms of two paths, row by row: as patches where both read windows at the same distances."""
        # Windows of other strides drift apart, so that no one window holds both
        if not isinstance(addend, Patches) or addend.stride != self.stride:
            return self.dense() + addend
        # Both paths begin at one form, so where its positions share coefficients `of` is one tensor
        if self.of is not addend.of:
            return self.each() + addend.each()
        # Both on the window that holds both, whose position 0 begins as early as the earlier one
        top, left = max(self.top, addend.top), max(self.left, addend.left)
        bottom = max(p.coefs.shape[-2] - p.top for p in (self, addend))
        right = max(p.coefs.shape[-1] - p.left for p in (self, addend))
        coefs = self._reaching(top, bottom, left, right) + addend._reaching(top, bottom, left, right)
        spills = self.spills or addend.spills
        paired = self.paired and addend.paired
        return Patches(coefs, self.at, self.stride, top, left, self.shape, spills, self.of, paired)._or_dense()

    def _reaching(self, top: int, bottom: int, left: int, right: int) -> Tensor:
        """Return the coefficients on a larger window."""
        # Each side grows by what it reaches less far than the larger window
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
        # How far the last windows go beyond the values; a negative number cuts what no window reaches
        bottom, right = last_y * sy + h - self.top - height, last_x * sx + w - self.left - width
        padded = F.pad(values, (self.left, right, self.top, bottom))
        windows = padded.unfold(2, h, sy).unfold(3, w, sx).permute(0, 2, 3, 1, 4, 5)  # a view, [B, Ho, Wo, C, h, w]
        down, across = self.at.unbind(1)
        if windows.shape[1:3].numel() > len(self.at):
            return windows[:, down, across]  # copies these positions alone: there may be millions of others
        return windows.flatten(1, 2).index_select(1, down * windows.shape[2] + across)  # each may be read many times

    def dot(self, values: Tensor) -> Tensor:
        """Return Σ coefs · values, [B, L · O], for values [*shape] or [B, *shape]."""
        windows = self.cut(values.expand(1, *self.shape) if values.ndim == 3 else values)
        # [B, L, O, n] @ [B, L, n, 1]
        return (self._read(self.coefs).flatten(3) @ windows.flatten(2)[..., None]).squeeze(-1).flatten(1)

    def through(self, operation: Affine) -> list["Form"]:
        """Return the forms on each input of an affine operation."""
        if isinstance(operation, Conv):
            coefs, of = self.coefs, self.of
            if self.spills:  # the padding of the convolution after this one, which this one does not compute
                coefs, of = self._read(coefs), None
                coefs = coefs * self.cut(coefs.new_ones(1, 1, *self.shape[1:]))[:, :, None]
            # [B · L · O, C, h, w]
            flat = operation.of_windows(coefs.flatten(0, 2))
            # A window that begins at i · stride - top reads from (i · stride - top) · sy - padding on
            (sy, sx), (left, _, top, _) = operation.stride, operation.padding
            patches = Patches(
                flat.unflatten(0, coefs.shape[:3]),
                self.at,
                (self.stride[0] * sy, self.stride[1] * sx),
                self.top * sy + top,
                self.left * sx + left,
                operation.inner,
                # Coefficients on the padding stay where they are, for values there count as zero
                any(operation.padding),
                of,
                self.paired,
            )
            return [patches._or_dense()]
        if isinstance(operation, Scale):
            # Zero outside the values, so that nothing spills any more
            factor = self.cut(operation.factor.expand(1, *self.shape))
            return [replace(self._with(self._read(self.coefs) * factor[:, :, None]), paired=self.paired)]
        if isinstance(operation, Add):
            return [self, replace(self, coefs=operation.sign * self.coefs)]
        return self.dense().through(operation)

    def _with(self, coefs: Tensor) -> "Patches":
        """Return the same windows with coefficients that are zero outside the values."""
        return Patches(coefs, self.at, self.stride, self.top, self.left, self.shape)

    def spread(self, values: Tensor) -> Tensor:
        """Return values [B, C, H, W] broadcast over rows."""
        return self.cut(values)[:, :, None]

    def relax(
        self, relaxation: LinearRelaxation, lower: Tensor | None = None, upper: Tensor | None = None
    ) -> tuple["Patches", Tensor]:
        """Return forms that lie below these once σ is replaced by its relaxation, and their constants [B, L · O].

        Args:
            relaxation: that of σ.
            lower: α of the lines below, in the shape of `coefs`; None: the usual lines.
            upper: that of the lines above.
        """
        relaxation = relaxation.over(self.spread, lower, upper)
        # Without α a row takes the lines of its opposite the other way round
        if self.paired and lower is None and upper is None:
            return self._relax_pairs(relaxation)
        # With α of its own a row may take another line, so that pairs are no opposites any more
        coefs, up, down = _relax_coefs(self._read(self.coefs), relaxation)
        constant = _dot(down, relaxation.above)
        if relaxation.below is not None:
            constant = constant + _dot(up, relaxation.below)
        return self._with(coefs), constant.flatten(1)

    def _relax_pairs(self, relaxation: LinearRelaxation) -> tuple["Patches", Tensor]:
        """Return `relax` of pairs, by their first rows: what is positive in one is negative in the other."""
        # Every other row: its opposite has the parts -down and -up. Split before `of` spreads them
        # over positions
        forms = self.coefs[:, :, ::2]
        up, down = self._read(forms.clamp_min(0)), self._read(forms.clamp_max(0))
        below, above = relaxation.below_slope, relaxation.above_slope
        size = torch.broadcast_shapes(up.shape, below.shape)
        coefs = up.new_empty(*size[:3], 2, *size[3:])
        # Views of one tensor, written in place: pairs need not be interleaved afterwards
        first, second = coefs.unbind(3)
        torch.mul(down, above, out=first).addcmul_(up, below)
        torch.mul(up, above, out=second).addcmul_(down, below).neg_()
        constants = [_dot(down, relaxation.above), -_dot(up, relaxation.above)]
        if relaxation.below is not None:
            constants = [constants[0] + _dot(up, relaxation.below), constants[1] - _dot(down, relaxation.below)]
        return self._with(coefs.flatten(2, 3)), torch.stack(constants, 3).flatten(1)

    def relax_max_pool(self, chosen: Chosen, operation: MaxPool) -> tuple[Dense, Tensor]:
        """See `Dense.relax_max_pool`."""
        return self.dense().relax_max_pool(chosen, operation)

    def windows(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return (coefs, values) flattened so that values broadcast over rows: [B, L, O, n] and [B, L, n]."""
        return self._read(self.coefs).flatten(3), self.cut(values).flatten(2)

    def rows(self, values: Tensor) -> Tensor:
        """Return a number per position and row, [B, L, O], as [B, L · O]."""
        return values.flatten(1)

    def dense(self) -> Dense:
        """Return the same rows, each over all values."""
        batch, _, rows, channels, h, w = self.coefs.shape
        _, height, width = self.shape
        device = self.coefs.device
        # Where each window's rows and columns stand in the image, [L, h] and [L, w]
        y = self.at[:, :1] * self.stride[0] - self.top + torch.arange(h, device=device)
        x = self.at[:, 1:] * self.stride[1] - self.left + torch.arange(w, device=device)
        inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None]
        # What is outside the values goes to one place more, which is cut off in the end
        index = torch.where(inside, y[:, :, None] * width + x[:, None], height * width).flatten(1)
        coefs = self._read(self.coefs).expand(batch, len(self.at), rows, channels, h, w).flatten(4)
        index = index[None, :, None, None].expand_as(coefs)
        # [B, L, O, C, H · W + 1]
        canvas = coefs.new_zeros(*coefs.shape[:4], height * width + 1).scatter_add(4, index, coefs)
        return Dense(canvas[..., :-1].unflatten(-1, (height, width)).flatten(1, 2))


Form = Dense | Patches
