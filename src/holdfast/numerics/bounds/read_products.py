"""Reads products and quotients of two values: elementwise, of matrices, as an einsum; and by constant matrices."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from holdfast.numerics.bounds.activations import RECIPROCAL, SQUARE
from holdfast.numerics.bounds.affine import Matrices, Matrix
from holdfast.numerics.bounds.network import ANY
from holdfast.numerics.bounds.products import IMAGES, Bilinear
from holdfast.numerics.bounds.read_affine import AffineHandlers
from holdfast.numerics.bounds.reader import Value, without_batch

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class ProductHandlers(AffineHandlers):
    """Handlers of products, see `Operations`."""

    def _op_mul(self, a: Any, b: Any) -> int:
        match self.depends(a, b):
            # A square is never negative, which the product of two ranges would not know
            case [True, True] if a == b:
                return self.append(SQUARE, (a,))
            case [True, True]:
                return self.elementwise(a, b)
            case [True, False]:
                return self.scale(a, b, 0.0)
        return self.scale(b, a, 0.0)

    _op_multiply = _op_mul

    def _op_div(self, a: Any, b: Any, rounding_mode: str | None = None) -> int:
        if rounding_mode is not None:
            raise self.refuse("division with rounding")
        if not self.depends(b)[0]:
            return self.scale(a, 1.0 / b, 0.0)
        # First, for a final normalisation is left out, and no reciprocal of a norm is wanted
        if self.by_norm():
            return self.normalise(a)
        share = Value(self.then(RECIPROCAL, b), b.shape)
        return self.elementwise(a, share) if self.depends(a)[0] else self.scale(share, a, 0.0)

    def _op_matmul(self, x: Any, y: Any) -> int:
        if min(x.shape.__len__(), y.shape.__len__()) < 2:
            raise self.refuse("a product with a vector")
        match self.depends(x, y):
            case [True, True]:
                return self.multiply_matrices(x, y)
            # One matrix for all: stored as weights, [out, in]
            case [True, False] if y.ndim == 2:
                return self.append(Matrix(y.T, None), (x,))
            case [True, False]:
                return self._by_matrices(x, y, left=False)
        return self._by_matrices(y, x, left=True)

    _op_mm = _op_bmm = _op_matmul

    def _by_matrices(self, x: Value, constant: Tensor, left: bool) -> int:
        """Return the product of a batch of matrices with constant ones, on their left or right."""
        batch = self.full_shape()[:-2]
        wide = self.route(x, lambda z: z.expand(*batch, *x.shape[-2:]))
        weight = constant.expand(*batch, *constant.shape[-2:]).double()
        return self.append(Matrices(weight.reshape(without_batch(tuple(weight.shape))), left), (wide,))

    def _op_einsum(self, equation: str, operands: Sequence[Any], *_: Any, **__: Any) -> int:
        equation = equation.replace(" ", "")
        x, y, out = (*equation.replace("->", ",").split(","), "", "")[:3]
        named = equation.count(",") == 1 and "->" in equation and "." not in equation
        if not named or not all(self.depends(*operands)) or any(len(set(axes)) < len(axes) for axes in (x, y, out)):
            raise self.refuse("an einsum that is not one of two values, with every axis named and none twice,")
        # A letter of one side alone would have to be summed there first
        if set(x) - set(y + out) or set(y) - set(x + out):
            raise self.refuse("an einsum that adds up one value alone")
        return self.product(equation, *operands)

    def elementwise(self, x: Value, y: Value, known: tuple[float, float] = ANY) -> Value:
        """Return the product of two values, place by place; axes of length 1 are as long as the other's."""
        # The last axes belong together, as in broadcasting
        axes = LETTERS[: max(len(x.shape), len(y.shape))]
        of_x, of_y = (axes[len(axes) - len(v.shape) :] for v in (x, y))
        return self.product(f"{of_x},{of_y}->{axes}", x, y, known)

    def multiply_matrices(self, x: Value, y: Value, transposed: bool = False) -> Value:
        """Return the product of two batches of matrices, of which the second may be transposed."""
        # a, b and c are rows, what is summed over, and columns; further letters are axes of the batch
        batch = LETTERS[3 : 1 + max(len(x.shape), len(y.shape))]
        of_x, of_y = (batch[len(batch) + 2 - len(v.shape) :] for v in (x, y))
        last = "cb" if transposed else "bc"
        return self.product(f"{of_x}ab,{of_y}{last}->{batch}ac", x, y)

    def product(self, equation: str, x: Value, y: Value, known: tuple[float, float] = ANY) -> Value:
        """Return an einsum of two tensors of the graph; an axis of length 1 serves all places of the other's."""
        inputs, _, out = equation.partition("->")
        sides = list(zip(inputs.split(","), (x, y), strict=True))
        sizes: dict[str, int] = {}
        for axes, value in sides:
            # An axis of length 1 is as long as the other value's
            for letter, size in zip(axes, value.shape, strict=True):
                sizes[letter] = max(size, sizes.get(letter, 1))
        # without axes of length 1, of which a tensor of the graph has one where the network's value has none
        kept = [[a for a, size in zip(axes, v.shape, strict=True) if size == sizes[a] > 1] for axes, v in sides]
        values = [self.reshape_to(v, tuple(sizes[a] for a in axes)) for axes, (_, v) in zip(kept, sides, strict=True)]
        terms = [IMAGES + "".join(axes) for axes in (*kept, [a for a in out if sizes[a] > 1])]
        result = self.then(Bilinear(f"{terms[0]},{terms[1]}->{terms[2]}"), *values, known=known)
        full = tuple(sizes[a] for a in out)
        return Value(self.reshape_to(result, without_batch(full)), full)
