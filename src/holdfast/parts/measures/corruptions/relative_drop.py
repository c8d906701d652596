"""Relative drop: the share of a probe's accuracy that a corruption takes."""

from dataclasses import dataclass

from holdfast.core import Table
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.corrupted import CorruptedMeasure
from holdfast.parts.measures.shared.drop import drops


@dataclass(frozen=True)
class RelativeDrop(CorruptedMeasure):
    """Δ(c) = (Acc - Acc(c)) / Acc for each corruption c, and its mean over all of them.

    With `consistent` the training images are corrupted in the same way, and the probe learns anew for each corruption:
    what is lost is what the representation no longer holds. Else the probe has only seen clean images.

    Table, one row per image: `right`, without a corruption; `right@TITLE`, under each; `average`, their mean;
    `taught`, how many images the probe learned from.
    """

    better = "lower"
    in_brief = True
    unit = "share"
    question = "What share of a classifier's accuracy does a corruption cost?"
    how_to_read = (
        "0 % means that the corruption costs nothing, 50 % that half of the correct answers are lost; below 0 % the "
        "classifier is better on corrupted images."
    )
    reference = "Zhong et al. (2022), Eq. 1, Tables 1 and D.3 to D.5"

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the relative drop of each corruption, and their average."""
        return drops(self, table)
