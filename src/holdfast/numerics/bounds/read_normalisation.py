"""Reads normalisation by statistics of the image itself: LayerNorm, GroupNorm, InstanceNorm, RMSNorm."""

import math
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import RSQRT, SQUARE
from holdfast.numerics.bounds.affine import Route, Scale
from holdfast.numerics.bounds.axes import Centre, Total
from holdfast.numerics.bounds.read_products import ProductHandlers
from holdfast.numerics.bounds.reader import Value


class NormalisationHandlers(ProductHandlers):
    """Handlers of normalisation, see `Operations`."""

    def _op_layer_norm(self, x: Value, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_) -> int:
        return self._scale_and_shift(self._normalise_groups(x, math.prod(shape), eps), weight, bias)

    def _op_rms_norm(self, x: Value, shape: Any, weight: Any = None, eps: float | None = None) -> int:
        # As torch does, in the precision in which the graph is exported
        eps = torch.finfo(torch.float64).eps if eps is None else eps
        return self._scale_and_shift(self._normalise_groups(x, math.prod(shape), eps, centred=False), weight, None)

    def _op_group_norm(
        self, x: Value, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
    ) -> int:
        # Channels lie one behind the other, so each group is a run of values
        normed = self._normalise_groups(x, math.prod(x.shape[1:]) // groups, eps)
        ones = [1] * (len(x.shape) - 2)
        weight, bias = (None if t is None else t.view(-1, *ones) for t in (weight, bias))
        return self._scale_and_shift(normed, weight, bias)

    def _op_instance_norm(self, x: Value, weight, bias, mean, variance, of_image, momentum, eps, *_: Any) -> int:
        # A group for each channel; otherwise the statistics are fixed, as those of BatchNorm
        if of_image:
            return self._op_group_norm(x, x.shape[1], weight, bias, eps)
        return self._op_batch_norm(x, weight, bias, mean, variance, False, momentum, eps)

    def _normalise_groups(self, x: Value, count: int, eps: float, centred: bool = True) -> Value:
        """Return (x - mean) / sqrt(variance + eps), or x / sqrt(mean of squares + eps), of each `count` values in turn.

        No value of n is larger than sqrt(n - 1), or sqrt(n) where they are not centred.
        """
        groups = self.reshape_to(x, (math.prod(x.shape) // count, count))  # a row for each set of statistics
        values = self.then(Centre(), groups) if centred else groups
        inner = self.nodes[values].shape
        # Bounds of a sum of squares may fall below 0, where the root has no value
        variance = self.then(Route(lambda z: z.mean(-1), inner, None), self.then(SQUARE, values), known=(0.0, math.inf))
        shift = torch.full(inner[:1], eps, dtype=torch.float64)
        inverse = self.then(RSQRT, self.then(Scale(torch.ones_like(shift), shift), variance, known=(eps, math.inf)))
        # Σ y² <= n; of centred values each is minus the sum of the others, so y² <= (n - 1) (n - y²) (Cauchy-Schwarz)
        most = math.sqrt(count - 1 if centred else count)
        normed = self.product("ab,a->ab", values, inverse, known=(-most, most))
        if centred:
            # Centred values add up to 0, which is used as a Lagrange multiplier
            normed = self.then(Total(0.0), self.reshape_to(normed, inner))
        return Value(self.reshape_to(normed, self.nodes[x].shape), x.shape)

    def _scale_and_shift(self, x: Value, weight: Tensor | None, bias: Tensor | None) -> int:
        """Return weight · value + bias, each of them left out where it is None."""
        if weight is None and bias is None:
            return x
        return self.scale(x, 1.0 if weight is None else weight, 0.0 if bias is None else bias)
