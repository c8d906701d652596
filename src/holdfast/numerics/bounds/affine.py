"""Affine operations of a network: what bound propagation must know about each of them.

Values are [N, *inner], where N runs over images, or over rows of linear forms.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.numerics.bounds.box import Box

PIECE = 128
"""Values of a window, at least, in one of the matrix products of `Conv.of_windows`."""


class Affine(ABC):
    """y = L x + c; a frozen dataclass whose tensors are parameters of the network."""

    constant: Tensor | None
    """c, [*outer]; None where it is zero."""

    @abstractmethod
    def __call__(self, *values: Tensor) -> Tensor:
        """Return L x + c."""

    @abstractmethod
    def spread(self, *widths: Tensor) -> Tensor:
        """Return |L| w: the half-widths of the box that contains the image of a box."""

    @abstractmethod
    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Return Lᵀ a for each input: linear forms on y as linear forms on x."""

    def to(self, where: torch.dtype | torch.device) -> "Affine":
        """Return the operation with its tensors in another precision, or on another device."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # pyright: ignore[reportArgumentType]
        # A new object leaves cached properties behind, whose tensors have the old precision
        return replace(self, **{k: v.to(where) for k, v in tensors.items() if isinstance(v, Tensor)})  # pyright: ignore


@dataclass(frozen=True, eq=False)
class Conv(Affine):
    """A convolution of [C, H, W] with any stride, dilation and groups, zero padded (left, right, top, bottom)."""

    weight: Tensor
    constant: Tensor | None
    inner: tuple[int, int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int

    def _linear(self, weight: Tensor, x: Tensor) -> Tensor:
        left, right, top, bottom = self.padding
        # Padding that is the same on both sides is left to conv2d, so that no padded copy is made
        own = (top, left) if (top, left) == (bottom, right) else (0, 0)
        x = x if own != (0, 0) or not any(self.padding) else F.pad(x, self.padding)
        return F.conv2d(x, weight, None, self.stride, own, self.dilation, self.groups)

    def __call__(self, *values: Tensor) -> Tensor:
        """Convolve and add the bias."""
        y = self._linear(self.weight, values[0])
        return y if self.constant is None else y + self.constant

    def spread(self, *widths: Tensor) -> Tensor:
        """Convolve with |weight|."""
        return self._linear(self.weight.abs(), widths[0])

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Convolve transposed, and leave out what falls on the padding."""
        _, height, width = self.inner
        left, _, top, _ = self.padding
        # Forms on the padded input; a negative width of F.pad cuts, a positive one adds what no stride reached
        full = self.apply_transpose(forms)
        return (F.pad(full, (-left, left + width - full.shape[-1], -top, top + height - full.shape[-2])),)

    def local(self, width: int) -> Tensor:
        """Return `apply_transpose` of the forms that read one value of a row of this width, [C · width, C', h, w]."""
        if width not in self._local:
            channels = self.weight.shape[0]
            # One form for each channel and column of the row
            units = torch.eye(channels * width, dtype=self.weight.dtype, device=self.weight.device)
            self._local[width] = self.apply_transpose(units.view(-1, channels, 1, width))
        return self._local[width]

    @cached_property
    def _local(self) -> dict[int, Tensor]:
        """What `local` has returned so far, by width."""
        return {}

    def of_windows(self, forms: Tensor) -> Tensor:
        """Return `apply_transpose(forms)` for many forms that read small windows: matrix products, shifted and added.

        A convolution treats forms one by one. Here a few values beside each other, all channels together, are the rows
        of one product for all forms; wider pieces would multiply more zeros, narrower ones are slower. Where channels
        do not mix (depthwise), or nothing but channels does (1 x 1), nothing is multiplied with zero.
        """
        count, channels, height, width = forms.shape
        (sy, sx), (dy, dx) = self.stride, self.dilation
        kernel_y, kernel_x = self.weight.shape[-2:]
        # 1 x 1: windows stay as they are, and one product mixes the channels, [C', C] @ [N, C, h · w]
        if self.groups == 1 and (sy, sx, kernel_y, kernel_x) == (1, 1, 1, 1):
            return (self.weight.flatten(1).T @ forms.flatten(2)).unflatten(2, (height, width))
        # Height and width of what the forms read of the padded input
        high, wide = (height - 1) * sy + (kernel_y - 1) * dy + 1, (width - 1) * sx + (kernel_x - 1) * dx + 1
        if self.groups == channels == self.inner[0]:
            # Depthwise: each weight of the kernel scales all forms and is added at its own offset
            total = forms.new_zeros(count, channels, high, wide)
            for y, x in itertools.product(range(kernel_y), range(kernel_x)):
                rows, columns = slice(y * dy, y * dy + (height - 1) * sy + 1, sy), slice(x * dx, None, sx)
                # The columns run to the end, of which the first `width` places are meant
                total[:, :, rows, columns][..., :width].addcmul_(forms, self.weight[:, 0, y, x, None, None])
            return total
        # As many pieces of a row as have `PIECE` values each, about, and are equally wide
        piece = math.ceil(width / max(1, channels * width // PIECE))
        total = forms.new_zeros(count, self.inner[0], high, wide)
        for left in range(0, width, piece):
            matrix = self.local(min(piece, width - left))
            shape, flat = matrix.shape[1:], matrix.flatten(1)
            for row in range(height):
                values = forms[:, :, row, left : left + piece].reshape(count, -1)
                # [count, C · piece] @ [C · piece, C' · h · w]. Windows of neighbours
                # overlap, so they are added up, in place
                part = total[:, :, row * sy : row * sy + shape[1], left * sx : left * sx + shape[2]]
                part += (values @ flat).unflatten(1, shape)
        return total

    def apply_transpose(self, forms: Tensor) -> Tensor:
        """Return the forms on the padded input, as far as they reach."""
        return F.conv_transpose2d(forms, self.weight, None, self.stride, 0, 0, self.groups, self.dilation)


@dataclass(frozen=True, eq=False)
class Matrix(Affine):
    """A matrix acting on the last axis."""

    weight: Tensor
    constant: Tensor | None

    def __call__(self, *values: Tensor) -> Tensor:
        """Multiply and add the bias."""
        y = values[0] @ self.weight.T
        return y if self.constant is None else y + self.constant

    def spread(self, *widths: Tensor) -> Tensor:
        """Multiply by |weight|."""
        return widths[0] @ self.weight.abs().T

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Multiply by the transposed matrix."""
        return (forms @ self.weight,)


@dataclass(frozen=True, eq=False)
class Matrices(Affine):
    """One or several constant matrices acting on the last axis, or from the left on the one before it."""

    weight: Tensor
    left: bool
    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Multiply."""
        return self.weight @ values[0] if self.left else values[0] @ self.weight

    def spread(self, *widths: Tensor) -> Tensor:
        """Multiply by |weight|."""
        return self.weight.abs() @ widths[0] if self.left else widths[0] @ self.weight.abs()

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Multiply by the transposed matrices."""
        return (self.weight.mT @ forms if self.left else forms @ self.weight.mT,)


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """A constant factor and a constant shift for every value: normalisation, BatchNorm, layer scale."""

    factor: Tensor
    constant: Tensor | None

    def __call__(self, *values: Tensor) -> Tensor:
        """Scale and shift."""
        y = values[0] * self.factor
        return y if self.constant is None else y + self.constant

    def spread(self, *widths: Tensor) -> Tensor:
        """Scale by |factor|."""
        return widths[0] * self.factor.abs()

    def box(self, box: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the box that a box becomes."""
        centre, width = self((box[0] + box[1]) / 2), self.spread((box[1] - box[0]) / 2)
        return centre - width, centre + width

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Scale."""
        return (forms * self.factor,)


@dataclass(frozen=True, eq=False)
class Reshape(Affine):
    """The same values in the same order in another shape."""

    inner: tuple[int, ...]
    outer: tuple[int, ...]
    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Reshape."""
        return values[0].reshape(-1, *self.outer)

    spread = __call__  # widths move as values do

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Reshape back."""
        return (forms.reshape(-1, *self.inner),)


@dataclass(frozen=True, eq=False)
class Route(Affine):
    """Any map with weights >= 0 that torch can differentiate: pooling by averages, means, permutations, slices."""

    function: Callable[[Tensor], Tensor]
    inner: tuple[int, ...]
    constant: Tensor | None

    def __call__(self, *values: Tensor) -> Tensor:
        """Apply the function."""
        return self.function(values[0])

    def spread(self, *widths: Tensor) -> Tensor:
        """Apply the function without its constant: the weights are not negative."""
        y = self.function(widths[0])
        return y if self.constant is None else y - self.constant

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Differentiate the function, which is the same everywhere."""
        zeros = forms.new_zeros(len(forms), *self.inner)
        # The function is affine, so its derivative, taken at zero, is its matrix
        return (torch.func.vjp(self.function, zeros)[1](forms)[0],)

    @cached_property
    def moves(self) -> bool:
        """Whether every value of y is a value of x: no averages, and no constants."""
        # No two of these are equal, and no average of several is one of them
        numbers = torch.rand(1, *self.inner, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        return bool(torch.isin(self.function(numbers), numbers).all()) and self.constant is None


@dataclass(frozen=True, eq=False)
class ZeroPad(Affine):
    """Zeros around [C, H, W]: (left, right, top, bottom). A convolution that follows takes it over."""

    padding: tuple[int, ...]
    inner: tuple[int, ...]
    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Pad."""
        return F.pad(values[0], self.padding)

    spread = __call__  # what is padded with zeros cannot vary

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Cut the padding off."""
        return (F.pad(forms, tuple(-p for p in self.padding)),)


@dataclass(frozen=True, eq=False)
class Add(Affine):
    """The sum of two values of one shape, times `sign` for the second: residual connections."""

    sign: int = 1
    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Add."""
        return values[0] + self.sign * values[1]

    def spread(self, *widths: Tensor) -> Tensor:
        """Add the widths."""
        return widths[0] + widths[1]

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Pass the forms on to both."""
        return forms, self.sign * forms


class Clamp(Add):
    """Max(z, 0) - max(z - h, 0), which is clamp(z, 0, h): of its node is known that it lies between 0 and h."""

    def box(self, rising: Box, _: Box) -> Box:
        """Return the range of the first, which is that of all below h; the second takes off what is beyond."""
        return rising


@dataclass(frozen=True, eq=False)
class Concat(Affine):
    """Values side by side along an axis (of [N, *inner], so not 0)."""

    axis: int
    sizes: tuple[int, ...]
    constant = None

    def __call__(self, *values: Tensor) -> Tensor:
        """Concatenate."""
        return torch.cat(values, self.axis)

    spread = __call__

    def adjoint(self, forms: Tensor) -> tuple[Tensor, ...]:
        """Take apart."""
        return torch.split(forms, list(self.sizes), self.axis)
