"""How far a representation moves, among the distances of all pairs of images."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.statistics import sampled_pairs, universal
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.divergences.l2 import L2
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class Drift(Quantity):
    """q(x) = P_{x_i,x_j}[ d(f(x_i), f(x_j)) <= d(f(x'), f(x)) ]; the median over images.

    The distribution is the exact one of all pairs of clean representations of the population, of up to 100,000 images.

    Table, one row per image of the population: `drift`, d(f(x'), f(x)), and `quantile`, NaN where x was not disturbed;
    `near`, the share of the pairs with an image that lie at or below the median drift.

    Attributes:
        divergence: how representations are compared.
        pairs_of: as many pairs are compared as so many images have, at most; see `sampled_pairs`.
    """

    divergence: AnyDivergence = L2()
    pairs_of: Count | None = field(default=None, kw_only=True)

    per_image = "quantile"
    better = "lower"
    unit = "share"
    question = "How far does a disturbed image move, compared with distances between different images?"
    how_to_read = (
        "1 % means that a disturbed image stays closer to its original than 99 % of image pairs are to each other; at "
        "50 % it is as far from its original as any other image would be."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (universal quantiles)"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return drifts, quantiles, and what every image's pairs say."""
        drifts = torch.stack([self.divergence(reps, clean[: len(reps)]) for reps in moved.values()])
        circle = sampled_pairs.circle(subject.seed, subject.population, self.pairs_of)
        # Exact ranks among all pairs of the population; all disturbances are placed in
        # the same passes over the pairs
        quantiles, near, _ = universal.place(clean, drifts, self.divergence, circle)
        columns = {"drift": universal.pad_to_population(drifts, len(clean)), "quantile": quantiles, "near": near}
        return {
            f"{column}@{name}": row for column, rows in columns.items() for name, row in zip(moved, rows, strict=True)
        }

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the median quantile, whose interval is over images and pairs."""
        # The interval knows with how many others each image was compared
        near = table[f"near@{name}"]
        partners = sampled_pairs.partners(len(near), self.pairs_of)
        return universal.MedianQuantile(table[f"quantile@{name}"], near, partners)

    def pairs(self, images: int) -> int:
        """Return how many pairs are compared."""
        return sampled_pairs.work(images, self.pairs_of)
