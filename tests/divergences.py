"""Every divergence by its name, also the one whose codebooks are read from a file."""

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.core import Divergence
from holdfast.core.divergence import read_divergence
from holdfast.parts.divergences.product_quantised import ProductQuantised

CODES = "product_quantised"


@cache
def codebooks(dim: int) -> Path:
    """Return a file of three centroids of each coordinate of vectors: -1 and 1 about, and one between."""
    path = Path(tempfile.mkdtemp(prefix="holdfast-codebooks-")) / f"{dim}.npy"
    np.save(path, np.random.default_rng(dim).normal([[[-1.0], [0.1], [1.0]]] * dim, 0.1))
    return path


@cache
def of_length(dim: int) -> ProductQuantised:
    """Return the divergence of vectors of a length, which has read its codebooks."""
    return ProductQuantised(str(codebooks(dim)))


class OfAnyLength(ProductQuantised):
    """Codes of vectors of any length, which a file of codebooks cannot be of."""

    def quantise(self, reps: Tensor) -> Tensor:
        return of_length(reps.shape[-1]).quantise(reps)


def divergence(name: str) -> Divergence:
    """Return a divergence by its name."""
    return OfAnyLength("any length") if name == CODES else read_divergence(name)
