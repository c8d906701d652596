"""What the measures of the feature space's shape have in common: contributions of images whose mean is the score."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jaxtyping import Bool, Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Measure, Observation, Score, Table
from holdfast.core.chart import Chart
from holdfast.numerics.statistics import sampled_pairs
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.observations.clean import Clean

SHOWN = 20
"""Classes of which each has a score; of more only their mean."""


@dataclass(frozen=True)
class ShapeMeasure(Measure):
    """A measure of the clean representations of the population; no image is disturbed."""

    @property
    def learns(self) -> bool:
        """No: labels only say which images are alike."""
        return False

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations."""
        return (Clean(),)

    @override
    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        # What the jackknife says that an image contributes is no value of that image: it may lie below 0, or above 1
        return ()

    def mean(
        self,
        contributions: Float[Tensor, "images"],
        partners: int | None = None,
        among: Bool[Tensor, "images"] | None = None,
    ) -> Statistic:
        """Return the mean of some contributions; see `holdfast.numerics.statistics.jackknife`.

        Args:
            contributions: of images; NaN where undefined.
            partners: with how many others each was compared; None: all.
            among: which images take part; None: all.
        """
        images = len(contributions) if among is None else int(among.sum())

        def describe(score: Score) -> Score:
            of_each = images - 1 if partners is None else partners
            return replace(score, interval=sampled_pairs.describe_interval(score.interval, images, of_each))

        # The jackknife's contributions: their mean is the score, and their spread is its error
        condition = "of the images' contributions (jackknife)"
        return Mean(contributions, condition=condition, among=among).restate(describe)
