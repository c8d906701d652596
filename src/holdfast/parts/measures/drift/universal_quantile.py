"""Universal quantile: how far an attack moves a representation, on the scale of the distances between images."""

from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Subject, Table
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.quantities.drift import Drift


@dataclass(frozen=True)
class UniversalQuantile(OfAllPairs, AttackMeasure):
    """q(x) = P_{x',x''}[ d(f(x'), f(x'')) <= d(f(x̂), f(x)) ]; the score is the median over images.

    The distribution is the exact empirical one of *all* pairs of clean representations of the population; beyond
    100,000 images, of fewer, in which all images take part alike, see `pairs_of`.

    Table, one row per image of the population: `drift@STEP`, d(f(x̂), f(x)), and `quantile@STEP`, NaN where x was not
    attacked; `near@STEP`, the share of the pairs with x that lie at or below the median drift.
    """

    usual = (5, 10, 30, 50)
    per_image = "quantile"
    statistic = "median"
    better = "lower"
    in_brief = True
    unit = "share"
    question = "How large is the drift caused by an attack, compared with distances between different images?"
    how_to_read = (
        "1 % means that the attacked image stays closer to its original than 99 % of image pairs are to each other; "
        "100 % means that it moves farther than any two images are apart."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (universal quantiles)"

    @property
    @override
    def gloss(self) -> str:
        return "drift"

    def observe(self, subject: Subject) -> Table:
        """Return drift and quantile of every attacked image, and what every image's pairs say."""
        return self._ask(self._drift, subject, *self.reps(subject))

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the median quantile."""
        return self._drift.reduce(table, column.partition("@")[2])

    @property
    def _drift(self) -> Drift:
        return Drift(self.divergence, pairs_of=self.pairs_of)
