"""Fine-tuned accuracy: how often the encoder is right after it was trained further on labelled images."""

from dataclasses import dataclass

from holdfast.core import Table
from holdfast.numerics.geometry.invariance import NOTHING
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.disturbed import AVERAGE
from holdfast.parts.measures.shared.fine_tuned import FineTunedMeasure


@dataclass(frozen=True)
class FineTunedAccuracy(FineTunedMeasure):
    """Acc(c) = E_x 1[the fine-tuned encoder and its layer classify c(x) as y(x)] for each threat c, and their mean.

    Table, one row per image: `right`, without a threat; `right@TITLE`, under each; `average`, their mean.
    """

    invariant = NOTHING

    better = "higher"
    unit = "share"
    question = "How accurate is the encoder after fine-tuning on labelled images?"
    how_to_read = (
        "All weights are trained, so it says how good a starting point the encoder is, not how good its frozen "
        "representation is. The interval covers the tested images only; training in another order gives another "
        "network."
    )
    reference = "Zhong et al. (2022), appendix D.5"

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the accuracy without a threat, under each, and on average."""
        # Without threats the clean accuracy is the only score, and the headline
        clean = {"no corruption": self.clean(table)}
        if not self.threats:
            return clean
        each = {title: Share(table[f"right@{title}"], condition=self.condition) for title in self.corruptions}
        return clean | each | {AVERAGE: self.average(table)}
