"""Fine-tuned drop: the share of a fine-tuned encoder's accuracy that a corruption takes."""

from dataclasses import dataclass

from holdfast.core import Table, Threat
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.disturbed import SIX
from holdfast.parts.measures.shared.drop import drops
from holdfast.parts.measures.shared.fine_tuned import FineTunedMeasure
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class FineTunedDrop(FineTunedMeasure):
    """Δ(c) = (Acc - Acc(c)) / Acc of the fine-tuned encoder for each threat c, and its mean over all of them.

    With `consistent` the encoder is fine-tuned anew on images that are disturbed in the same way, as in the paper.

    Table, one row per image: `right`, without a threat; `right@TITLE`, under each; `average`, their mean.

    Attributes:
        threats: the corruptions, one after the other; of a noise, one draw for each image.
    """

    invariant = NOTHING

    threats: tuple[Threat, ...] = SIX

    better = "lower"
    unit = "share"
    question = "What share of the fine-tuned encoder's accuracy does a corruption cost?"
    how_to_read = (
        "0 % means that the corruption costs nothing, 50 % that half of the correct answers are lost. Fine-tuning can "
        "hide what the frozen representation loses: compare it with the relative drop of a probe."
    )
    reference = "Zhong et al. (2022), Eq. 1, Table D.5"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.threats:
            raise BadValue("fine_tuned_drop: threats: expected one threat or more, got none")

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the relative drop of each threat, and their average."""
        return drops(self, table)
