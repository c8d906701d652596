"""What share of its nearest neighbours an image keeps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.geometry.nearest import nearest
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.divergences.cosine import Cosine
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import NotEnough


@dataclass(frozen=True)
class NeighboursKept(Quantity):
    """|N_k(f(x')) ∩ N_k(f(x))| / k, N_k the k nearest of the other clean images; the mean over images.

    Table, one row per disturbed image: `kept`.

    Attributes:
        k: how many neighbours.
        divergence: how representations are compared.
    """

    k: Count = 10
    divergence: AnyDivergence = Cosine()

    per_image = "kept"
    better = "higher"
    unit = "share"
    question = "What share of its nearest neighbours does an image keep when it is disturbed?"
    how_to_read = (
        "100 % means that a disturbed image has the same neighbours as the clean one. A representation that has lost "
        "the image entirely still keeps k / (N - 1) by chance, for k neighbours among N images."
    )
    reference = "agreement of kNN sets, as in Huh et al. (2024), section 2, between an image and its disturbed version"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return the share of neighbours that every image keeps.

        Raises:
            HoldfastError: a population of fewer than k other images, or of k, which all would be kept.
        """
        if self.k > len(clean) - 2:
            raise NotEnough(
                f"expected k below the number of other images, {len(clean) - 1}, got {self.k}; lower k or use more "
                "images"
            )
        # N_k(f(x)) of the images that are disturbed, once for all disturbances
        own = self._others(clean[: max(map(len, moved.values()))], clean)
        return {
            # Members of both lists: [M, k, 1] == [M, 1, k], whatever their order
            f"kept@{name}": (own[: len(reps), :, None] == self._others(reps, clean)[:, None]).any(2).double().mean(1)
            for name, reps in moved.items()
        }

    def _others(self, reps: Float[Tensor, "images dim"], clean: Tensor) -> Int[Tensor, "images k"]:
        """Return the k nearest images other than the image itself."""
        lists = nearest(reps, clean, self.k + 1, self.divergence)
        # One more than k is looked up, so that k are left without the image itself
        is_own = lists == torch.arange(len(reps))[:, None]
        is_own[:, -1] |= ~is_own.any(1)  # not among them: the farthest is one too many
        return lists[~is_own].view(len(reps), self.k)

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the mean share."""
        return Mean(table[f"kept@{name}"], condition="given this population of images", most=1.0)
