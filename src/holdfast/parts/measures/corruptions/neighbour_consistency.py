"""Neighbour consistency: how many of an image's nearest neighbours a corruption leaves to it."""

from dataclasses import dataclass

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure
from holdfast.parts.quantities.neighbours_kept import NeighboursKept
from holdfast.runtime.errors import BadValue


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
            raise BadValue(f"neighbour_consistency: k: expected at least 1 neighbour, got {self.k}")

    def observe(self, subject: Subject) -> Table:
        """Return the share of neighbours that every image keeps under every corruption.

        Raises:
            HoldfastError: a population of fewer than k other images, or of k, which all would be kept.
        """
        clean, disturbed = self.read_reps(subject)
        kept = NeighboursKept(self.k, self.divergence).observe(subject, clean, disturbed)
        return self.add_average({title: kept[f"{self.per_image}@{title}"] for title in disturbed})

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean share."""
        return Mean(table[column], condition="given this population of images", most=1.0)
