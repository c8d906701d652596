"""What each operation of an exported graph is for bound propagation: one handler for each, by its name in torch."""

from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from holdfast.numerics.bounds.activations import (
    ELU,
    GELU,
    GELU_TANH,
    SIGMOID,
    SILU,
    SOFTPLUS,
    TANH,
    Curved,
    MaxPool,
    Relu,
    Smooth,
)
from holdfast.numerics.bounds.affine import Add, Concat, Conv, Matrix, Reshape, Scale, ZeroPad
from holdfast.numerics.bounds.network import SMALLEST_NORM
from holdfast.numerics.bounds.reader import Reader


class Operations(Reader):
    """Handlers: a graph node's arguments, values as their numbers, to the number of the node that is appended."""

    # --- affine ---

    def _op_conv2d(self, x, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1) -> int:
        if not isinstance(weight, Tensor):
            raise self.refuse("a convolution whose weights depend on the image")
        stride, dilation = _two(stride), _two(dilation)
        left, right, top, bottom = _around(weight, padding, dilation)
        before = self.nodes[x]
        if isinstance(before.operation, ZeroPad):
            more = before.operation.padding
            left, right, top, bottom = left + more[0], right + more[1], top + more[2], bottom + more[3]
            x = before.inputs[0]
        constant = None if bias is None else bias[:, None, None].expand(self.shape()).contiguous()
        inner = self.nodes[x].shape
        return self.append(Conv(weight, constant, inner, stride, (left, right, top, bottom), dilation, groups), (x,))

    def _op_linear(self, x, weight, bias=None) -> int:
        if not isinstance(weight, Tensor):
            raise self.refuse("a product of two values that depend on the image")
        return self.append(Matrix(weight, None if bias is None else bias.expand(self.shape()).contiguous()), (x,))

    def _op_matmul(self, x, weight) -> int:
        if not self.depends(x)[0] or not isinstance(weight, Tensor) or weight.ndim != 2:
            raise self.refuse("a product of two values that depend on the image, or with a batch of matrices")
        return self.append(Matrix(weight.T, None), (x,))

    _op_mm = _op_matmul

    def _op_batch_norm(self, x, weight, bias, mean, variance, training, momentum, eps, *_) -> int:
        if training or mean is None:
            raise self.refuse("BatchNorm with the statistics of the batch")
        factor = torch.rsqrt(variance + eps) * (1 if weight is None else weight)
        shift = -mean * factor + (0 if bias is None else bias)
        ones = [1] * (len(self.shape()) - 1)
        return self._scale(x, factor.view(-1, *ones), shift.view(-1, *ones))

    def _scale(self, x: int, factor: Tensor | float, shift: Tensor | float) -> int:
        constant = self.constant_of(shift)
        return self.append(Scale(self.constant_of(factor), constant if constant.any() else None), (x,))

    def _op_add(self, a, b, alpha=1) -> int:
        match self.depends(a, b):
            case [True, True]:
                if alpha not in (1, -1) or self.nodes[a].shape != self.nodes[b].shape:
                    raise self.refuse("a weighted or broadcast sum of two values")
                return self.append(Add(alpha), (a, b))
            case [True, False]:
                return self._scale(a, 1.0, alpha * b)
        return self._scale(b, float(alpha), a)

    def _op_sub(self, a, b, alpha=1) -> int:
        return self._op_add(a, b, alpha=-alpha)

    def _op_rsub(self, a, b, alpha=1) -> int:
        return self._op_add(b, a, alpha=-alpha)

    def _op_neg(self, x) -> int:
        return self._scale(x, -1.0, 0.0)

    def _op_mul(self, a, b) -> int:
        if all(self.depends(a, b)):
            raise self.refuse("a product of two values that depend on the image")
        return self._scale(a, b, 0.0) if self.depends(a)[0] else self._scale(b, a, 0.0)

    def _op_div(self, a, b, rounding_mode=None) -> int:
        if self.depends(b)[0]:
            return self._normalise(a)
        if rounding_mode is not None:
            raise self.refuse("division with rounding")
        return self._scale(a, 1.0 / b, 0.0)

    def _normalise(self, x: int) -> int:
        """Leave out x / ||x||_2 where it is the last thing that the encoder does."""
        assert self.at is not None
        norm = self.at.args[1]
        while isinstance(norm, fx.Node) and any(w in str(norm.target) for w in ("expand", "clamp")):
            if "clamp" in str(norm.target) and not _is_tiny(norm.args[1:]):
                raise self.refuse("a quotient whose divisor is limited")
            norm = norm.args[0]
        last = all(user.op == "output" for user in self.at.users)
        fits = _is_norm(norm) and self.values.get(norm.all_input_nodes[0]) == x
        order = norm.args[1] if _is_norm(norm) and len(norm.args) > 1 else 2
        if not (last and fits and order == 2 and len(self.shape()) == 1):
            raise self.refuse("a quotient of two values that depend on the image")
        self.normalised = self.where()
        return x

    def _ignored(self, x, *_, **__) -> int:
        """Return x itself: a norm is read by `_normalise` from the graph, and refused everywhere else by its name."""
        readers = self.at.users if self.at is not None else {}
        if not all(any(w in str(user.target) for w in ("expand", "clamp", "div")) for user in readers):
            raise self.refuse("a norm")
        return x

    _op_linalg_vector_norm = _ignored
    _op_norm = _ignored

    def _op_mean(self, x, dim=None, keepdim=False, dtype=None) -> int:
        axes = [d % (len(self.nodes[x].shape) + 1) for d in dim or [0]]
        if 0 in axes:
            raise self.refuse("a mean over the batch")
        return self.route(x, lambda z: z.mean(axes, keepdim))

    def _op_adaptive_avg_pool2d(self, x, size) -> int:
        return self.route(x, lambda z: F.adaptive_avg_pool2d(z, size))

    def _op_avg_pool2d(self, x, kernel, stride=(), padding=0, ceil=False, count=True, divisor=None) -> int:
        return self.route(x, lambda z: F.avg_pool2d(z, kernel, stride or kernel, padding, ceil, count, divisor))

    def _op_permute(self, x, dims) -> int:
        rank = len(dims)
        if dims[0] % rank:
            raise self.refuse("a permutation of the batch axis")
        return self.route(x, lambda z: z.permute(dims))

    def _op_transpose(self, x, a, b) -> int:
        rank = len(self.nodes[x].shape) + 1
        if 0 in (a % rank, b % rank):
            raise self.refuse("a permutation of the batch axis")
        return self.route(x, lambda z: z.transpose(a, b))

    def _op_slice(self, x, dim=0, start=None, end=None, step=1) -> int:
        if dim % (len(self.nodes[x].shape) + 1) == 0:
            return self._op_view(x)
        return self.route(x, lambda z: torch.ops.aten.slice.Tensor(z, dim, start, end, step))

    def _op_select(self, x, dim, index) -> int:
        if dim % (len(self.nodes[x].shape) + 1) == 0:
            raise self.refuse("one image of a batch")
        return self.route(x, lambda z: z.select(dim, index))

    def _op_cat(self, values, dim=0) -> int:
        rank = len(self.shape()) + 1
        if dim % rank == 0 or not all(self.depends(*values)):
            raise self.refuse("a concatenation of images, or with a constant")
        sizes = tuple(self.nodes[i].shape[dim % rank - 1] for i in values)
        return self.append(Concat(dim % rank, sizes), tuple(values))

    def _op_pad(self, x, padding, mode="constant", value=None) -> int:
        if mode != "constant":
            return self.route(x, lambda z: F.pad(z, padding, mode=mode))
        if len(padding) == 4 and not value and min(padding) >= 0:
            inner = self.nodes[x].shape
            return self.append(ZeroPad(tuple(padding), inner), (x,))
        return self.route(x, lambda z: F.pad(z, padding, value=value or 0.0))

    _op_constant_pad_nd = _op_pad

    def _op_view(self, x, *_, **__) -> int:
        shape = self.shape()
        return x if self.nodes[x].shape == shape else self.append(Reshape(self.nodes[x].shape, shape), (x,))

    _op_reshape = _op_flatten = _op__unsafe_view = _op_squeeze = _op_unsqueeze = _op_unflatten = _op_view
    _op_contiguous = _op_clone = _op_alias = _op_detach = _op_to = _op__to_copy = _op_lift_fresh_copy = _op_view

    def _op_expand(self, x, *_, **__) -> int:
        if self.nodes[x].shape != self.shape():
            users = self.at.users if self.at is not None else {}
            if all("div" in str(user.target) for user in users):
                return x  # the norm of a normalised head, see `_normalise`
            raise self.refuse("an expansion")
        return x

    _op_expand_as = _op_expand

    def _op_dropout(self, x, p, train) -> int:
        if train:
            raise self.refuse("dropout that is switched on")
        return x

    _op_feature_dropout = _op_alpha_dropout = _op_dropout

    # --- curved ---

    def _curve(self, x: int, curve: Curved) -> int:
        return self.append(curve, (x,))

    def _op_relu(self, x) -> int:
        return self._curve(x, Relu())

    def _op_leaky_relu(self, x, slope=0.01) -> int:
        """A z + (1 - a) max(z, 0), so that what is known about ReLU serves."""
        line, bend = self._scale(x, float(slope), 0.0), self._scale(self._op_relu(x), 1.0 - slope, 0.0)
        return self.append(Add(), (line, bend))

    def _op_hardtanh(self, x, low=-1.0, high=1.0) -> int:
        """Low + max(z - low, 0) - max(z - high, 0)."""
        first = self._op_relu(self._scale(x, 1.0, -float(low)))
        second = self._op_relu(self._scale(x, 1.0, -float(high)))
        return self._scale(self.append(Add(-1), (first, second)), 1.0, float(low))

    def _op_relu6(self, x) -> int:
        return self._op_hardtanh(x, 0.0, 6.0)

    def _op_clamp(self, x, low=None, high=None) -> int:
        assert self.at is not None
        if _is_norm(self.at.args[0]):
            return x  # the norm of a normalised head, see `_normalise`
        if any(isinstance(limit, Tensor) for limit in (low, high)) or any(self.depends(low, high)):
            raise self.refuse("a clamp whose limits are tensors")
        if low is not None and high is not None:
            return self._op_hardtanh(x, low, high)
        if low is not None:
            return self._scale(self._op_relu(self._scale(x, 1.0, -float(low))), 1.0, float(low))
        assert high is not None  # torch refuses a clamp without limits
        return self._scale(self._op_relu(self._scale(x, -1.0, float(high))), -1.0, float(high))

    def _op_clamp_min(self, x, low) -> int:
        return self._op_clamp(x, low)

    def _op_tanh(self, x) -> int:
        return self._curve(x, TANH)

    def _op_sigmoid(self, x) -> int:
        return self._curve(x, SIGMOID)

    def _op_silu(self, x) -> int:
        return self._curve(x, SILU)

    def _op_gelu(self, x, approximate="none") -> int:
        return self._curve(x, GELU_TANH if approximate == "tanh" else GELU)

    def _op_elu(self, x, alpha=1.0, scale=1.0, input_scale=1.0) -> int:
        return self._usual(x, ELU, alpha == scale == input_scale == 1)

    def _op_softplus(self, x, beta=1.0, threshold=20.0) -> int:
        return self._usual(x, SOFTPLUS, beta == 1 and threshold >= 12)

    def _usual(self, x: int, curve: Smooth, usual: bool) -> int:
        if not usual:
            raise self.refuse("this activation with other parameters than the usual ones")
        return self._curve(x, curve)

    def _op_max_pool2d(self, x, kernel, stride=(), padding=0, dilation=1, ceil=False) -> int:
        kernel, inner = _two(kernel), self.nodes[x].shape
        pool = MaxPool(kernel, _two(stride or kernel), _two(padding), _two(dilation), ceil, inner)  # type: ignore[arg-type]
        return self.append(pool, (x,))


def _is_norm(node: Any) -> TypeGuard[fx.Node]:
    """Whether a node of the graph is a vector norm (and not BatchNorm, which has the word in its name)."""
    name = str(node.target).removeprefix("aten.").partition(".")[0] if isinstance(node, fx.Node) else ""
    return name in ("norm", "linalg_vector_norm")


def _is_tiny(limits: tuple[Any, ...]) -> bool:
    """Whether a clamp is from below only, at a number that hardly any norm is smaller than."""
    return len(limits) == 1 and isinstance(limits[0], (int, float)) and limits[0] <= SMALLEST_NORM


def _two(value: Any) -> tuple[int, int]:
    """Return a pair from a number, a list of one or a pair."""
    values = [value] if isinstance(value, int) else list(value)
    return values[0], values[-1]


def _around(weight: Tensor, padding: Any, dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the padding as (left, right, top, bottom); "same" is what torch makes of it."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        rows, columns = (dilation[i] * (weight.shape[2 + i] - 1) for i in (0, 1))
        return columns // 2, columns - columns // 2, rows // 2, rows - rows // 2
    vertical, horizontal = _two(padding)
    return horizontal, horizontal, vertical, vertical
