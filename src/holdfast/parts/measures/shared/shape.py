"""What the measures of the feature space's shape have in common: contributions of images whose mean is the score."""

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Measure, Observation, Score, Table
from holdfast.numerics import statistics
from holdfast.numerics.statistics import sampled_pairs
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

    def mean(self, contributions: Float[Tensor, "images"], partners: int | None = None) -> Score:
        """Return the score of some contributions; see `holdfast.numerics.statistics.jackknife`.

        Args:
            contributions: of images; NaN where undefined.
            partners: with how many others each was compared; None: all.
        """
        # The jackknife's contributions: their mean is the score, and their spread is its error
        score = statistics.mean(contributions, condition="of the images' contributions (jackknife)")
        images = len(contributions)
        kind = sampled_pairs.describe_interval(score.interval, images, images - 1 if partners is None else partners)
        return replace(score, interval=kind)

    @override
    def influence(self, table: Table) -> Float[Tensor, "units"]:
        return statistics.influence_of_mean(table[self.column])
