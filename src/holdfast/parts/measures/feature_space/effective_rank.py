"""Effective rank: how many directions of the representation's space are in use."""

from dataclasses import dataclass

from holdfast.core import Subject, Table
from holdfast.numerics.geometry import spectrum
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.shape import ShapeMeasure
from holdfast.parts.observations.clean import Clean


@dataclass(frozen=True)
class EffectiveRank(ShapeMeasure):
    """exp(-Σ p_k log p_k), p_k = σ_k / Σσ, of the singular values σ of the centred representations.

    Beside it the participation ratio (Σλ)² / Σλ² of the covariance's eigenvalues λ = σ², which counts large directions
    only.

    Table, one row per image: `rank` and `participation`, what it contributes to both.
    """

    invariant = EVERY

    better = "higher"
    in_brief = True
    unit = "ratio"
    question = "How many directions of its space does the representation use?"
    how_to_read = (
        "From 1 (all images on a line) to the dimension D (all directions used equally). With N images it is "
        "underestimated by a share of about D / (8 N) when all directions are used equally, so compare encoders on the "
        "same number of images."
    )
    reference = "Roy & Vetterli (2007); Garrido et al. (2023)"

    @property
    def column(self) -> str:
        """What each image contributes to the effective rank."""
        return "rank"

    def observe(self, subject: Subject) -> Table:
        """Return what every image contributes."""
        # Both are contributions by the jackknife, so that a plain mean
        # gives the score and its interval
        reps = Clean.of(subject)
        return {"rank": spectrum.effective_rank(reps), "participation": spectrum.participation_ratio(reps)}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the participation ratio and the effective rank."""
        return {"participation ratio": self.mean(table["participation"]), "effective rank": self.mean(table["rank"])}
