"""How high a search among clean images ranks the original of a disturbed image."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Divergence, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.ranking import first_without
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.divergences.l2 import L2


@dataclass(frozen=True)
class Rank(Quantity):
    """1 / (1 + #{x_j : d(f(x'), f(x_j)) < d(f(x'), f(x))}), the mean reciprocal rank of the original.

    Table, one row per disturbed image: `rank`; `precision`, 1 / rank; `parts`, what the image contributes to its mean,
    as a query and in the index.

    Attributes:
        divergence: how representations are compared.
    """

    divergence: AnyDivergence = L2()

    per_image = "precision"
    better = "higher"
    unit = "share"
    question = "How high does a search among clean images rank the original of a disturbed image?"
    how_to_read = "100 % if it always comes first, 50 % if it always comes second, and close to 0 if it is lost."
    reference = "Voorhees (1999)"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return where every disturbed image finds its original."""
        table: Table = {}
        for name, reps in moved.items():
            nearer, _ = pairwise.closer(reps, clean, torch.arange(len(reps)), self.divergence)
            # Only strictly nearer images come before the original
            rank = 1.0 + nearer.double()
            table |= {f"rank@{name}": rank, f"precision@{name}": 1 / rank}
            table[f"parts@{name}"] = contribute(1 / rank, reps, clean, self.divergence)
        return table

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the mean reciprocal rank."""
        return DrawnMean(table[f"precision@{name}"], table[f"parts@{name}"], most=1.0)


def contribute(
    precision: Float[Tensor, "images"],
    reps: Float[Tensor, "images dim"],
    clean: Float[Tensor, "population dim"],
    divergence: Divergence,
) -> Float[Tensor, "images"]:
    """Return what each query contributes to the mean of 1 / rank, in both roles, [M].

    Images that are no queries, of N, are in the index too: each query stands for N / M images there.

    Args:
        precision: 1 / rank, [M].
        reps: of the queries, the first images of the population, [M, D].
        clean: of the index, [N, D].
        divergence: how representations are compared.
    """
    queries = len(precision)
    # What each query's own image does to others' ranks by being in the index
    changes = first_without(reps, clean, torch.arange(queries), divergence)[:queries]
    # √(M N) and not M: the N images of the index add N / M times the
    # variance that these M of them show
    return precision - (queries * len(clean)) ** 0.5 * (changes - changes.mean())
