"""Neighbour consistency: how many of an image's nearest neighbours a corruption leaves to it."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import AnyDivergence, HoldfastError, Subject, Table
from holdfast.numerics.geometry.nearest import nearest
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure


@dataclass(frozen=True)
class NeighbourConsistency(DisturbedMeasure):
    """|N_k(f(c(x))) ∩ N_k(f(x))| / k for each corruption c; the score is the mean over images.

    N_k: the k nearest of the other clean images of the population. The label-free twin of a kNN probe's accuracy under
    corruption: a vote of the same neighbours cannot change.

    Table, one row per image: `kept@TITLE` of each corruption, `kept`, their mean.

    Attributes:
        k: how many pairwise.
        divergence: how representations are compared.
    """

    k: int = 10
    divergence: AnyDivergence = Cosine()

    per_image = "kept"
    better = "higher"
    in_brief = True
    unit = "share"
    question = "What share of an image's nearest neighbours does it keep when it is corrupted?"
    how_to_read = (
        "100 % means that a corrupted image has the same neighbours as the clean one. A representation that has lost "
        "the image entirely still keeps k / (N - 1) by chance, for k neighbours among N images."
    )
    reference = "agreement of kNN sets, as in Huh et al. (2024), section 2, between an image and its corrupted version"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise HoldfastError(f"neighbour_consistency: k: expected at least 1 neighbour, got {self.k}")

    def observe(self, subject: Subject) -> Table:
        """Return the share of neighbours that every image keeps under every corruption.

        Raises:
            HoldfastError: a population of fewer than k other images, or of k, which all would be kept.
        """
        clean, disturbed = self.read_reps(subject)
        if self.k > len(clean) - 2:
            raise HoldfastError(
                f"neighbour_consistency: expected k below the number of other images, {len(clean) - 1}, got {self.k}; "
                "lower k or use more images"
            )
        # N_k(f(x)) of the images that are disturbed, once for all corruptions
        own = self._others(clean[: len(next(iter(disturbed.values())))], clean)
        kept = {
            # Members of both lists: [M, k, 1] == [M, 1, k], whatever their order
            title: (own[:, :, None] == self._others(reps, clean)[:, None]).any(2).double().mean(1)
            for title, reps in disturbed.items()
        }
        return self.add_average(kept)

    def _others(self, reps: Float[Tensor, "images dim"], clean: Tensor) -> Int[Tensor, "images k"]:
        """Return the k nearest images other than the image itself."""
        lists = nearest(reps, clean, self.k + 1, self.divergence)
        # One more than k is looked up, so that k are left without the image itself
        is_own = lists == torch.arange(len(reps))[:, None]
        is_own[:, -1] |= ~is_own.any(1)  # not among them: the farthest is one too many
        return lists[~is_own].view(len(reps), self.k)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean share."""
        return Mean(table[column], condition="given this population of images", most=1.0)
