"""The weighted vote of the nearest training images."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Classifier, Reps
from holdfast.numerics.geometry.top_k import top
from holdfast.parts.probes.shared import faiss as _faiss

INDICES = {"exact": top, "faiss": _faiss.top}
"""How the nearest training images are found; both compare every one of them."""


@dataclass(frozen=True)
class Vote(Classifier):
    """What a kNN probe gives: the votes of its bank.

    Attributes:
        classes: see `Classifier`.
        targets: the number of each training image's class, [N].
        chunks: their representations, see `Bank`.
        k: how many vote.
        temperature: how much more the nearest ones count.
        index: a key of `INDICES`.
    """

    classes: Int[Tensor, "classes"]
    targets: Int[Tensor, "bank"]
    chunks: Callable[[], Iterator[Reps]]
    k: int
    temperature: float
    index: str = "exact"

    def scores(self, reps: Reps) -> Float[Tensor, "batch classes"]:
        """Return the votes of the k most similar training images for every class."""
        cosines, places = INDICES[self.index](reps, self.chunks(), self.k)
        votes = torch.zeros(len(reps), len(self.classes), dtype=torch.float64)
        # exp((s - 1) / T) is at most 1, so no temperature overflows; the common factor changes no order
        return votes.scatter_add_(1, self.targets[places], ((cosines.double() - 1) / self.temperature).exp())
