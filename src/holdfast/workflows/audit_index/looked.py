"""What a look at every number of stored vectors finds: copies, dimensions, lengths."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.sources.vectors import Vectors

GROUPS = 10
"""Groups of equal vectors that are named."""


@dataclass(frozen=True)
class Every:
    """What all vectors say.

    Attributes:
        usable: the rows without NaN or infinite numbers.
        lengths: of these, in float64.
        constant: dimensions that have one value throughout.
        copies: how many vectors equal another one to the last bit.
        groups: the rows of equal vectors, the largest groups first.
    """

    usable: Int[Tensor, "usable"]
    lengths: Float[Tensor, "usable"]
    constant: list[int]
    copies: int
    groups: list[list[int]]


def look(vectors: Vectors) -> Every:
    """Look at every number, once."""
    bad = torch.zeros(len(vectors), dtype=torch.bool)
    # One NaN makes a sum one, so such rows stay out of everything
    bad[vectors.survey.not_finite] = True
    low, high = torch.full((vectors.dim,), torch.inf), torch.full((vectors.dim,), -torch.inf)
    low, high, start = low.double(), high.double(), 0
    lengths, marks = list[Tensor](), list[np.ndarray]()
    # odd numbers by which the bits of a vector become one number of 64
    odd = np.random.default_rng(0).integers(0, 2**63, vectors.dim * 2, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    for rows in vectors.blocks():
        good = rows[~bad[start : start + len(rows)]]
        start += len(rows)
        lengths.append(torch.linalg.vector_norm(good.double(), dim=1))
        if len(good):
            low, high = torch.minimum(low, good.amin(0).double()), torch.maximum(high, good.amax(0).double())
        # -0 is 0
        bits = np.ascontiguousarray((good + 0.0).numpy()).view(np.uint32).astype(np.uint64)
        bits *= odd[: bits.shape[1]]
        # a product's upper half mixes its bits
        marks.append((bits ^ (bits >> np.uint64(29))).sum(1))
    usable = (~bad).nonzero().squeeze(1)
    _, group, sizes = np.unique(np.concatenate(marks), return_inverse=True, return_counts=True)
    # Marks of 64 bits that two vectors have by chance do not occur
    several = np.flatnonzero(sizes > 1)
    largest = several[np.argsort(-sizes[several], kind="stable")][:GROUPS]
    groups = [usable[torch.from_numpy(np.flatnonzero(group.reshape(-1) == number))].tolist() for number in largest]
    constant = (low == high).nonzero().squeeze(1).tolist() if len(usable) > 1 else []
    return Every(usable, torch.cat(lengths), constant, int(sizes[several].sum()), groups)
