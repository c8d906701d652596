"""The share of an accuracy that each of several corruptions takes."""

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics.ratios import influence_of_ratio, relative_drop
from holdfast.parts.measures.shared.corrupted import CorruptedMeasure
from holdfast.parts.measures.shared.disturbed import AVERAGE
from holdfast.parts.measures.shared.fine_tuned import FineTunedMeasure


def drops(measure: CorruptedMeasure | FineTunedMeasure, table: Table) -> dict[str, Score]:
    """Return Δ(c) = (Acc - Acc(c)) / Acc of each corruption, and their average, on the same images."""
    clean, right = measure.clean(table), table["right"]

    def score_drop(under: Float[Tensor, "images"], score: Score) -> Score:
        # Both accuracies are of the same images: Eq. 1 divides correlated numbers
        rho = statistics.correlation(statistics.influence_of_mean(under), statistics.influence_of_mean(right))
        return relative_drop(score, clean, rho)

    columns = {title: table[f"right@{title}"] for title in measure.corruptions}
    each = {
        title: score_drop(rows, statistics.share(rows, condition=measure.condition)) for title, rows in columns.items()
    }
    # All corruptions share the clean accuracy, so the average of their
    # drops is the drop of their average
    return each | {AVERAGE: score_drop(table[AVERAGE], measure.average(table))}


def influence_on_drop(table: Table) -> Float[Tensor, "units"]:
    """Return each image's influence on the average drop, up to a factor."""
    return -influence_of_ratio(table[AVERAGE], table["right"])
