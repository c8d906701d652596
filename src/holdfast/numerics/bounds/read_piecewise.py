"""Reads piecewise linear functions of each value, as sums of ReLUs, and max pooling."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.bounds.affine import Add, Clamp
from holdfast.numerics.bounds.clip import Clip
from holdfast.numerics.bounds.max_pool import MaxPool
from holdfast.numerics.bounds.read_affine import is_norm
from holdfast.numerics.bounds.reader import Reader, two
from holdfast.numerics.bounds.relu import Relu


class PiecewiseHandlers(Reader):
    """Handlers of piecewise linear functions, see `Operations`: what is known about ReLU serves them all."""

    def _op_relu(self, x) -> int:
        return self.append(Relu(), (x,))

    def above(self, x: int, limit: Tensor | float, sign: int = 1) -> int:
        """Append max(sign · (z - limit), 0)."""
        return self._op_relu(self.scale(x, float(sign), -sign * limit))

    def _op_leaky_relu(self, x, slope: Tensor | float = 0.01) -> int:
        """A z + (1 - a) max(z, 0), for any slope a."""
        line, bend = self.scale(x, slope, 0.0), self.scale(self._op_relu(x), 1.0 - slope, 0.0)
        return self.append(Add(), (line, bend))

    def _op_prelu(self, x, slopes) -> int:
        if not isinstance(slopes, Tensor):
            raise self.refuse("a slope that depends on the image")
        wide = len(self.full_shape()) - 2
        return self._op_leaky_relu(x, slopes.view(-1, *[1] * wide) if slopes.numel() > 1 else slopes.view(()))

    def _op_rrelu(self, x, lowest=1 / 8, highest=1 / 3, training=False, *_) -> int:
        if training:
            raise self.refuse("a random slope")
        # Without training torch takes the mean slope
        return self._op_leaky_relu(x, (lowest + highest) / 2)

    def _op_hardtanh(self, x, low=-1.0, high=1.0) -> int:
        """Low + max(z - low, 0) - max(z - high, 0)."""
        return self.scale(self._step(x, float(low), float(high)), 1.0, float(low))

    def _step(self, x: int, low: float, high: float) -> int:
        """Append clamp(z, low, high) - low, which lies between 0 and high - low."""
        step = self.append(Clamp(-1), (self.above(x, low), self.above(x, high)))
        self.nodes[step] = replace(self.nodes[step], known=(0.0, high - low))
        return step

    def _op_relu6(self, x) -> int:
        return self._op_hardtanh(x, 0.0, 6.0)

    def _op_hardsigmoid(self, x) -> int:
        return self.scale(self._step(x, -3.0, 3.0), 1 / 6, 0.0)

    def _op_round(self, x, decimals=0) -> int:
        return self.append(Clip(step=10.0**-decimals), (x,))

    def _op_threshold(self, x, limit, value) -> int:
        if limit != value:
            raise self.refuse("a threshold with a jump")
        return self._op_clamp_min(x, limit)

    def _op_softshrink(self, x, width=0.5) -> int:
        """max(z - w, 0) - max(-z - w, 0)."""
        return self.append(Add(-1), (self.above(x, float(width)), self.above(x, -float(width), -1)))

    def _op_abs(self, x) -> int:
        """2 max(z, 0) - z, which is not negative."""
        both = self.append(Add(-1), (self.scale(self._op_relu(x), 2.0, 0.0), x))
        # The difference of two ranges would reach below 0
        self.nodes[both] = replace(self.nodes[both], known=(0.0, math.inf))
        return both

    def _op_clamp(self, x, low=None, high=None) -> int:
        assert self.at is not None
        if is_norm(self.at.args[0]):
            return x  # the norm of a normalised head, see `normalise`
        if any(isinstance(limit, Tensor) for limit in (low, high)) or any(self.depends(low, high)):
            raise self.refuse("a clamp whose limits are tensors")
        if low is not None and high is not None:
            return self._op_hardtanh(x, low, high)
        # Low + max(z - low, 0), or high - max(high - z, 0)
        if low is not None:
            return self.scale(self.above(x, float(low)), 1.0, float(low))
        assert high is not None  # torch refuses a clamp without limits
        return self.scale(self.above(x, float(high), -1), -1.0, float(high))

    def _op_clamp_min(self, x, low) -> int:
        return self._op_clamp(x, low)

    def _op_clamp_max(self, x, high) -> int:
        return self._op_clamp(x, None, high)

    def _op_maximum(self, a: Any, b: Any) -> int:
        return self._extreme(a, b, 1)

    def _op_minimum(self, a: Any, b: Any) -> int:
        return self._extreme(a, b, -1)

    def _extreme(self, a: Any, b: Any, sign: int) -> int:
        """Append b + sign · max(sign · (a - b), 0), the larger (1) or the smaller (-1) of both."""
        if not all(self.depends(a, b)):
            # Of a value and a constant one ReLU is enough
            value, limit = (a, b) if self.depends(a)[0] else (b, a)
            return self.scale(self.above(value, torch.as_tensor(limit).double(), sign), float(sign), limit)
        if self.nodes[a].shape != self.nodes[b].shape:
            raise self.refuse("the larger or smaller of two values of different shapes")
        beyond = self._op_relu(self.append(Add(-1), (a, b) if sign == 1 else (b, a)))
        return self.append(Add(sign), (b, beyond))

    def _op_max_pool2d(self, x, kernel, stride=(), padding=0, dilation=1, ceil=False) -> int:
        kernel, inner = two(kernel), self.picture(x)
        pool = MaxPool(kernel, two(stride or kernel), two(padding), two(dilation), ceil, inner)
        return self.append(pool, (x,))
