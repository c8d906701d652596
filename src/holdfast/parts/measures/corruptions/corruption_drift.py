"""Corruption drift: how far a corruption moves a representation, on the scale of the distances between images."""

from dataclasses import dataclass

import torch

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.all_pairs import OfAllPairs
from holdfast.parts.measures.shared.disturbed import DisturbedMeasure


@dataclass(frozen=True)
class CorruptionDrift(OfAllPairs, DisturbedMeasure):
    """q(x) = P_{x',x''}[ d(f(x'), f(x'')) <= d(f(c(x)), f(x)) ] for each corruption c; the score is the median.

    The label-free twin of the relative drop: universal quantiles of drift, for corruptions instead of attacks. The
    distribution is the exact one of all pairs of clean representations of the population; see `UniversalQuantile`.

    Table, one row per image of the population: `quantile@TITLE` of each corruption, `quantile`, their mean, NaN for
    images that are not corrupted; `near@TITLE` and `near`, the shares of the pairs with an image that lie at or below
    the median image's drift.

    Attributes:
        divergence: how representations are compared.
    """

    divergence: AnyDivergence = L2()

    per_image = "quantile"
    better = "lower"
    in_brief = True
    unit = "share"
    question = "How far does a corruption move a representation, compared with distances between different images?"
    how_to_read = (
        "1 % means that the corrupted image stays closer to its original than 99 % of image pairs are to each other; "
        "at 50 % it is as far from its original as any other image would be."
    )
    reference = (
        "universal quantiles of Petrov & Kwiatkowska (2022), section 5, under the corruptions of Zhong et al. (2022)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()

    def observe(self, subject: Subject) -> Table:
        """Return the quantile of every image's drift under every corruption."""
        clean, disturbed = self.read_reps(subject)
        # d(f(c(x)), f(x)) of each corruption: universal quantiles of section 5, for
        # corruptions instead of attacks
        drifts = [self.divergence(reps, clean[: len(reps)]) for reps in disturbed.values()]
        # All corruptions are placed in one pass over the pairs
        quantiles, near, near_mean = self.place(subject, clean, torch.stack(drifts), self.divergence)
        pairs = {f"near@{title}": row for title, row in zip(disturbed, near, strict=True)} | {"near": near_mean}
        return self.add_average(dict(zip(disturbed, quantiles, strict=True))) | pairs

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the median quantile."""
        return self.median_quantile(table[column], table[column.replace("quantile", "near")])
