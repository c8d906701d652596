"""What the measures that compare all pairs of images have in common: of very many images, each with some others."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jaxtyping import Float
from torch import Tensor

from holdfast.core import Divergence, Measure, Subject
from holdfast.numerics.geometry.circle import Circle
from holdfast.numerics.statistics import sampled_pairs, universal
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.runtime.checked import Count

TIMED = 5000
"""Images as many pairs as which have are compared, to foretell how long all take."""


@dataclass(frozen=True)
class OfAllPairs(Measure):
    """A measure that compares all pairs of clean representations, of up to 100,000 images.

    Attributes:
        pairs_of: as many pairs are compared as so many images have, at most. Of more images each is compared with
            equally many others, drawn by the seed, and the interval says with how many; see `sampled_pairs`. None: all
            of up to 100,000 images, of more as many as 50,000 have.
    """

    pairs_of: Count | None = field(default=None, kw_only=True)

    def check(self, ids: Sequence[str]) -> None:
        """Raise where the pairs of too few images are to be compared."""
        sampled_pairs.check(self.pairs_of)
        super().check(ids)

    def circle(self, subject: Subject, images: int | None = None) -> Circle | None:
        """Return which pairs are compared; None where these are all.

        Args:
            subject: the encoder that was observed.
            images: how many there are; None: the population.
        """
        return sampled_pairs.circle(subject.seed, subject.population if images is None else images, self.pairs_of)

    def pairs(self, images: int) -> int:
        """Return how many pairs are compared."""
        return sampled_pairs.work(images, self.pairs_of)

    def shrink_for_timing(self, subject: Subject) -> tuple[Measure, float]:
        """Return itself on the pairs of some thousand images, and how many times as long all pairs take."""
        return self._limit_pairs(subject.population)

    def _limit_pairs(self, images: int) -> tuple[Measure, float]:
        """Return the same of images that are compared with each other."""
        # Timed on fewer pairs; the time of all grows with their number
        fewer = replace(self, pairs_of=min(TIMED, self.pairs_of or TIMED))
        work, some = (sampled_pairs.work(images, part.pairs_of) for part in (self, fewer))
        return (fewer, work / some) if some < work else (self, 1.0)

    def partners(self, images: int) -> int:
        """Return with how many others each of some images is compared."""
        return sampled_pairs.partners(images, self.pairs_of)

    def place(
        self,
        subject: Subject,
        bank: Float[Tensor, "population dim"],
        drifts: Float[Tensor, "columns images"],
        divergence: Divergence,
    ) -> tuple[Float[Tensor, "columns population"], Float[Tensor, "columns population"], Float[Tensor, "population"]]:
        """Return where drifts lie among these pairs, see `universal.place`."""
        return universal.place(bank, drifts, divergence, self.circle(subject))

    def median_quantile(self, quantiles: Float[Tensor, "population"], near: Float[Tensor, "population"]) -> Statistic:
        """Return the median of where drifts lie."""
        return universal.MedianQuantile(quantiles, near, self.partners(len(near)))
