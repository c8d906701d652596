"""Kullback-Leibler divergence of the softmax of features."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.divergence import Bank, Divergence, PerPair, Queries, Vectors


@dataclass(frozen=True)
class Kl(Divergence):
    """KL(softmax(b) || softmax(a)): how far the features a are from those of the reference b.

    The reference comes first inside the logarithm's weight, as in virtual adversarial training
    (Miyato et al. 2019; Alayrac et al. 2019).

    Example:
        >>> round(Kl()(torch.tensor([0.0, 0.0]), torch.tensor([math.log(3), 0.0])).item(), 4)
        0.1308
    """

    title = "KL divergence"
    symmetric = False
    invariant = frozenset({"permutation"})

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the divergence of each pair."""
        log_a, log_b = F.log_softmax(a, -1), F.log_softmax(b, -1)
        value = (log_b.exp() * (log_b - log_a)).sum(-1)
        return value + (-value.detach()).clamp_min(0)  # rounding may fall below zero; the gradient is kept

    def floor(self, reps: Queries, bank: Bank) -> float:
        """Return the rounding of differences of numbers of size one."""
        return 1e-12

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return Σ p_b log p_b - Σ p_b log p_a of all pairs, by one product; rounding may take it below 0."""
        log_a, log_b = F.log_softmax(rows.reps, -1), F.log_softmax(columns.reps, -1)
        weight = log_b.exp()
        return ((weight * log_b).sum(-1) - log_a @ weight.T).clamp_min_(0)
