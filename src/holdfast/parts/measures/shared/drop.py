"""The share of an accuracy that each of several corruptions takes."""

from holdfast.core import Table
from holdfast.numerics.statistics.ratios import RelativeDrop
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.measures.shared.corrupted import CorruptedMeasure
from holdfast.parts.measures.shared.disturbed import AVERAGE
from holdfast.parts.measures.shared.fine_tuned import FineTunedMeasure


def drops(measure: CorruptedMeasure | FineTunedMeasure, table: Table) -> dict[str, Statistic]:
    """Return Δ(c) = (Acc - Acc(c)) / Acc of each corruption, and their average, on the same images."""
    under = {title: Share(table[f"right@{title}"], condition=measure.condition) for title in measure.corruptions}
    # All corruptions share the clean accuracy, so the average of their
    # drops is the drop of their average
    accuracies = under | {AVERAGE: measure.average(table)}
    # Both accuracies are of the same images: Eq. 1 divides correlated numbers
    clean = measure.clean(table)
    return {title: RelativeDrop(accuracy, clean) for title, accuracy in accuracies.items()}
