"""How evenly weights are spread."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def entropy_ratio(weights: Float[Tensor, "*batch components"]) -> Float[Tensor, "*batch"]:
    """Return H(π) / log K: 1 for equal weights, 0 for a single one; NaN, not defined, for K = 1.

    Example:
        >>> [round(v, 4) for v in entropy_ratio(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()]
        [1.0, 0.0]
    """
    return torch.special.entr(weights).sum(-1) / (math.log(weights.shape[-1]) or math.nan)
