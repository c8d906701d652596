"""Reads softmax and attention."""

import math
from typing import Any

import torch
from torch import Tensor

from holdfast.numerics.bounds.activations import EXP, RECIPROCAL
from holdfast.numerics.bounds.affine import Route, Scale
from holdfast.numerics.bounds.axes import Differences, Total
from holdfast.numerics.bounds.read_products import ProductHandlers
from holdfast.numerics.bounds.reader import Value


class AttentionHandlers(ProductHandlers):
    """Handlers of softmax and attention, see `Operations`."""

    def _op_softmax(self, x: Value, dim: int, *_: Any, **__: Any) -> int:
        return self.route(self._softmax(self.route(x, lambda z: z.movedim(dim, -1))), lambda z: z.movedim(-1, dim))

    _op__softmax = _op_softmax

    def _softmax(self, x: Value, given: Tensor | None = None) -> Value:
        """Return softmax along the last axis as 1 / Σ_j exp(x_j - x_i), in which x_i itself is exp(0).

        Args:
            x: the scores.
            given: which places are given a share, in the shape of the network's value; None: all of them.
        """
        # [..., i, j]: exp(x_j - x_i)
        terms = self.then(EXP, self.then(Differences(), x))
        shape = self.nodes[terms].shape
        if given is not None:  # what gets no share adds nothing to the sums of others; its own sum is at least 1 too
            others = given[..., None, :].double().expand(shape).contiguous()
            terms = self.then(Scale(others, torch.diag_embed((~given).double())), terms)
        # One of the terms is exp(0) = 1
        total = self.then(Route(lambda z: z.sum(-1), shape, None), terms, known=(1.0, math.inf))
        shares = self.then(RECIPROCAL, total, known=(0.0, 1.0))
        if given is not None:
            shares = self.then(Scale(given.double(), None), shares)
        # Shares add up to 1, which is used as a Lagrange multiplier
        return Value(self.then(Total(1.0), shares), x.shape)

    def _op_scaled_dot_product_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        mask: Any = None,
        dropout: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> int:
        if dropout or enable_gqa or any(self.depends(mask)) or not all(self.depends(query, key, value)):
            raise self.refuse("attention with dropout, shared heads, a mask that depends on the image, or a constant")
        # q kᵀ, times a factor, and a mask: numbers to be added, or which places are given a share
        scores = self.multiply_matrices(query, key, transposed=True)
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        shape = self.nodes[scores].shape
        shift = given = None
        if is_causal:
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()  # each place sees itself and those before it
        if mask is not None:
            mask = mask.expand(scores.shape).reshape(shape)
            # -inf in a mask of numbers gives no share, as False does; its other numbers are a shift
            given = mask if mask.dtype == torch.bool else mask > -math.inf
            shift = None if mask.dtype == torch.bool else torch.where(given, mask, 0.0).double()
            given = None if bool(given.all()) else given
        scaled = self.then(Scale(torch.full(shape, factor, dtype=torch.float64), shift), scores)
        return self.multiply_matrices(self._softmax(Value(scaled, scores.shape), given), value)
