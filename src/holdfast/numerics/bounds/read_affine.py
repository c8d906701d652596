"""Reads affine operations: convolutions, matrices, sums, factors; and the normalisation at the end of an encoder."""

from typing import Any, TypeGuard

import torch
from torch import Tensor, fx

from holdfast.numerics.bounds.affine import Add, Conv, Matrix, Scale, ZeroPad
from holdfast.numerics.bounds.network import SMALLEST_NORM
from holdfast.numerics.bounds.reader import Reader, Value, two


class AffineHandlers(Reader):
    """Handlers of affine operations, see `Operations`."""

    def _op_conv2d(self, x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1) -> int:
        if not isinstance(weight, Tensor):
            raise self.refuse("a convolution whose weights depend on the image")
        stride, dilation = two(stride), two(dilation)
        left, right, top, bottom = _around(weight, padding, dilation)
        before = self.nodes[x]
        if isinstance(before.operation, ZeroPad):
            # Zeros that were put around the picture become the convolution's own padding
            more = before.operation.padding
            left, right, top, bottom = left + more[0], right + more[1], top + more[2], bottom + more[3]
            x = before.inputs[0]
        inner = self.picture(x)
        # One number for each value, [C, H, W]
        constant = None if bias is None else bias[:, None, None].expand(self.shape()).contiguous()
        return self.append(Conv(weight, constant, inner, stride, (left, right, top, bottom), dilation, groups), (x,))

    def _op_linear(self, x, weight, bias=None) -> int:
        if not isinstance(weight, Tensor):
            raise self.refuse("a product of two values that depend on the image")
        return self.append(Matrix(weight, None if bias is None else bias.expand(self.shape()).contiguous()), (x,))

    def _op_batch_norm(self, x, weight, bias, mean, variance, training, momentum, eps, *_) -> int:
        if training or mean is None:
            raise self.refuse("BatchNorm with the statistics of the batch")
        # γ (x - mean) / √(variance + ε) + β with statistics that stay is a scale
        factor = torch.rsqrt(variance + eps) * (1 if weight is None else weight)
        shift = -mean * factor + (0 if bias is None else bias)
        ones = [1] * (len(self.full_shape()) - 2)
        return self.scale(x, factor.view(-1, *ones), shift.view(-1, *ones))

    def _op_add(self, a, b, alpha=1) -> int:
        match self.depends(a, b):
            case [True, True]:
                # Straight through, a + (y - a) is y, of whose roundings no gradient comes back
                if alpha == 1 and (rounded := self._in_place_of(a, b)) is not None:
                    return rounded
                if abs(alpha) != 1:
                    # `Add` has a sign, and no factor
                    factor = torch.full(self.nodes[b].shape, abs(alpha), dtype=torch.float64)
                    b = Value(self.then(Scale(factor, None), b), b.shape)
                full = self.full_shape()
                # Each as large as the sum, where one is broadcast
                wide = [v if v.shape == full else self.route(v, lambda z: z.expand(full)) for v in (a, b)]
                return self.append(Add(1 if alpha > 0 else -1), wide)
            case [True, False]:
                return self.scale(a, 1.0, alpha * b)
        return self.scale(b, float(alpha), a)

    def _in_place_of(self, a: int, b: int) -> int | None:
        """Return y where b is y - a; None where it is something else."""
        operation, inputs = self.nodes[b].operation, self.nodes[b].inputs
        less = isinstance(operation, Add) and operation.sign == -1 and inputs[1] == a
        return inputs[0] if less else None

    def _op_sub(self, a, b, alpha=1) -> int:
        return self._op_add(a, b, alpha=-alpha)

    def _op_rsub(self, a, b, alpha=1) -> int:
        return self._op_add(b, a, alpha=-alpha)

    def _op_neg(self, x) -> int:
        return self.scale(x, -1.0, 0.0)

    def by_norm(self) -> bool:
        """Whether the divisor of this quotient is a vector norm."""
        return is_norm(self._divisor())

    def _divisor(self) -> Any:
        assert self.at is not None
        # Back from the quotient to the norm, over what shapes it and keeps it away from 0
        norm = self.at.args[1]
        while isinstance(norm, fx.Node) and any(w in str(norm.target) for w in ("expand", "clamp")):
            # F.normalize divides by 1e-12 at least, which hardly changes any norm
            if "clamp" in str(norm.target) and is_norm(norm.args[0]) and not _is_tiny(norm.args[1:]):
                raise self.refuse("a quotient whose divisor is limited")
            norm = norm.args[0]
        return norm

    def normalise(self, x: int) -> int:
        """Leave out x / ||x||_2 where it is the last thing that the encoder does."""
        assert self.at is not None
        norm = self._divisor()
        # A positive factor changes no sign of a margin without bias, if nothing but the output reads it
        last = all(user.op == "output" for user in self.at.users)
        fits = is_norm(norm) and self.values.get(norm.all_input_nodes[0]) == x
        order = norm.args[1] if is_norm(norm) and len(norm.args) > 1 else 2
        if not (last and fits and order == 2 and len(self.shape()) == 1):
            raise self.refuse("a quotient of two values that depend on the image")
        self.normalised = self.where()
        return x

    def _skip_norm(self, x, *_, **__) -> int:
        """Return x itself: a norm is read by `_normalise` from the graph, and refused everywhere else by its name."""
        # A norm that goes anywhere but into a quotient (perhaps over a clamp) would be x in its place
        readers = self.at.users if self.at is not None else {}
        if not all(any(w in str(user.target) for w in ("expand", "clamp", "div")) for user in readers):
            raise self.refuse("a norm")
        return x

    _op_linalg_vector_norm = _skip_norm
    _op_norm = _skip_norm


def is_norm(node: Any) -> TypeGuard[fx.Node]:
    """Whether a node of the graph is a vector norm (and not BatchNorm, which has the word in its name).

    Example:
        >>> is_norm(0.5)
        False
    """
    name = str(node.target).removeprefix("aten.").partition(".")[0] if isinstance(node, fx.Node) else ""
    return name in ("norm", "linalg_vector_norm")


def _is_tiny(limits: tuple[Any, ...]) -> bool:
    """Whether a clamp is from below only, at a number that hardly any norm is smaller than."""
    return len(limits) == 1 and isinstance(limits[0], (int, float)) and limits[0] <= SMALLEST_NORM


def _around(weight: Tensor, padding: Any, dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the padding as (left, right, top, bottom); "same" is what torch makes of it."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        # Of an odd number torch puts the larger half behind
        rows, columns = (dilation[i] * (weight.shape[2 + i] - 1) for i in (0, 1))
        return columns // 2, columns - columns // 2, rows // 2, rows - rows // 2
    vertical, horizontal = two(padding)
    return horizontal, horizontal, vertical, vertical
