"""Hamming distance of signs: what an index of binary codes compares."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.blocks import Side
from holdfast.numerics.geometry.divergence import Divergence, PerPair, Vectors


@dataclass(frozen=True)
class Hamming(Divergence):
    """#{k : [a_k > 0] ≠ [b_k > 0]}, the bits in which two binary codes differ; positive coordinates are set bits.

    Whole numbers, so ties are many: what is as near is not nearer. It has no gradient, and attacks pursue the smooth
    stand-in ½ Σ_k (1 - u_k sign(b_k)), u = t / √(1 + t²), t = a / s, s the root mean square of b; whatever they find is
    judged by the bits.

    Source: bits as `quantize_embeddings(..., "binary")` of Sentence Transformers and binary indexes have them.

    Example:
        >>> Hamming()(torch.tensor([0.5, -0.1, 2.0]), torch.tensor([0.1, 0.3, -1.0])).item()
        2.0
    """

    title = "Hamming distance"
    exact = True
    invariant = frozenset({"scaling", "permutation"})

    def __call__(self, a: Vectors, b: Vectors) -> PerPair:
        """Return in how many bits each pair differs."""
        # In the numbers' own precision, which holds every count of bits
        return ((a > 0) != (b > 0)).sum(-1).to(a.dtype)

    def pursue(self, a: Vectors, b: Vectors) -> PerPair:
        """Return the smooth stand-in, whose gradient is largest for the bits that are nearest to 0."""
        size = b.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-30)
        # Its slope falls as 1 / t³ where that of tanh falls to 0 itself, which no search could follow
        steps = a / size
        return (1 - steps * (1 + steps.square()).rsqrt() * self.embed(b)).sum(-1) / 2

    def embed(self, reps: Vectors) -> Vectors:
        """Return 1 for each bit that is set, -1 for the others."""
        return torch.where(reps > 0, 1.0, -1.0).to(reps)

    def block(self, rows: Side, columns: Side) -> Float[Tensor, "rows columns"]:
        """Return the distances of all pairs; a product of ±1 is the number of equal bits less that of others."""
        return (rows.reps.shape[1] - rows.reps @ columns.reps.T) / 2
