"""Corrupted accuracy: how often a probe is right on corrupted images (transfer accuracy)."""

from dataclasses import dataclass

from holdfast.core import Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.corrupted import CorruptedMeasure
from holdfast.parts.measures.shared.disturbed import AVERAGE


@dataclass(frozen=True)
class CorruptedAccuracy(CorruptedMeasure):
    """Acc(c) = E_x 1[the probe classifies f(c(x)) as y(x)] for each corruption c, and its mean over all of them.

    With the common corruptions and a probe that learned from clean images this is the transfer accuracy of CIFAR-10-C
    and ImageNet-C; 1 minus it is their corruption error without a reference classifier's.

    Table, one row per image: `right`, without a corruption; `right@TITLE`, under each; `average`, their mean;
    `taught`, how many images the probe learned from.
    """

    better = "higher"
    unit = "share"
    question = "How accurate is a classifier on the frozen representation when images are corrupted?"
    how_to_read = (
        "The average weights all corruptions equally. The accuracy on clean images and under each corruption stands "
        "beside it."
    )
    reference = (
        "Hendrycks & Dietterich (2019), ImageNet-C; appendix B of Petrov & Kwiatkowska (2022) for transfer accuracy"
    )

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the accuracy without a corruption, under each, and on average."""
        each = {title: Share(table[f"right@{title}"], condition=self.condition) for title in self.corruptions}
        return {"no corruption": self.clean(table)} | each | {AVERAGE: self.average(table)}
