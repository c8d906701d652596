"""What the measures that compare all pairs of images have in common: beyond very many images, a sample of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Measure, Subject
from holdfast.numerics.statistics import sampled_pairs, universal
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class OfAllPairs(Measure):
    """A measure that compares all pairs of clean representations; its cost grows with the square of their number.

    Attributes:
        pairs_of: images whose pairs are compared, at most; of more, so many are drawn by the seed and their ids. None:
            all of up to 100,000 images, and 20,000 of more. The interval says so; see `sampled_pairs`.
    """

    pairs_of: Count | None = field(default=None, kw_only=True)

    def check(self, ids: Sequence[str]) -> None:
        """Raise where the pairs of too few images are to be compared."""
        sampled_pairs.check(self.pairs_of)
        super().check(ids)

    def sample(self, subject: Subject, images: int | None = None) -> Int[Tensor, "sampled"] | None:
        """Return the positions of the images whose pairs are compared; None where these are all.

        Args:
            subject: the encoder that was observed.
            images: how many there are, the first ones of the population; None: all of it.
        """
        return sampled_pairs.sample(subject.seed, subject.ids[:images], self.pairs_of)

    def place(
        self,
        subject: Subject,
        bank: Float[Tensor, "population dim"],
        drifts: Float[Tensor, "columns images"],
        name: str = "l2",
    ) -> tuple[Float[Tensor, "columns population"], Float[Tensor, "columns population"], Float[Tensor, "population"]]:
        """Return where drifts lie among these pairs, see `universal.place`."""
        return universal.place(bank, drifts, name, self.sample(subject))
