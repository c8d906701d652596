"""Representations as directions: their unit vectors, and the cosine distance of these."""

import torch
from jaxtyping import Float
from torch import Tensor

_ROWS = 4096
"""Pairs whose unit vectors are held at once: those of a whole population take several times the memory of its own."""


def unit(reps: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
    """Return reps / ||reps||_2, zero where reps is zero.

    Example:
        >>> unit(torch.tensor([[0.0, 2.0], [0.0, 0.0]])).tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
    # Clamped, for `where` divides everywhere: the gradient at a zero vector is 0 instead of NaN
    norm = torch.linalg.vector_norm(reps, dim=-1, keepdim=True)
    return torch.where(norm > 1e-30, reps / norm.clamp_min(1e-30), torch.zeros_like(reps))


def cosine(a: Float[Tensor, "*batch dim"], b: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch"]:
    """Return 1 - <a, b> / (||a|| ||b||), in [0, 2]; 1 where a or b is zero.

    Computed as ½ ||u - v||² of the unit vectors, which is exactly zero, and never below, where a = b.

    Example:
        >>> cosine(torch.tensor([1.0, 0.0]), torch.tensor([[5.0, 0.0], [0.0, 1.0], [-2.0, 0.0]])).tolist()
        [0.0, 1.0, 2.0]
    """
    if a.ndim == 2 and a.shape == b.shape and len(a) > _ROWS:  # each row is for itself, so nothing changes
        return torch.cat([cosine(*rows) for rows in zip(a.split(_ROWS), b.split(_ROWS), strict=True)])
    u, v = unit(a), unit(b)
    absent = (u == 0).all(-1).to(u) + (v == 0).all(-1).to(v)  # a zero vector has no direction: ½ ||u - v||² lacks ½
    # Not 1 - <u, v>, which rounds near 0
    return ((u - v).square().sum(-1) + absent) / 2
