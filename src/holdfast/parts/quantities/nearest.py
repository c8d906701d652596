"""Whether the original is still the nearest image to its disturbed version."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.divergences.l2 import L2

CONDITION = "given this population of images"


@dataclass(frozen=True)
class Nearest(Quantity):
    """1[ no other x_j has d(f(x'), f(x_j)) < d(f(x'), f(x)) ]; the share of images.

    Table, one row per disturbed image: `found`, 1 where the original is still nearest.

    Attributes:
        divergence: how representations are compared.
    """

    divergence: AnyDivergence = L2()

    per_image = "found"
    better = "higher"
    unit = "share"
    question = "How often is the original still the nearest clean neighbour of a disturbed image?"
    how_to_read = "100 % means that every disturbed image is still recognised among all images."
    reference = "Petrov & Kwiatkowska (2022), Eq. 4"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return which images find their originals."""
        return {f"found@{name}": self.find(reps, clean) for name, reps in moved.items()}

    def find(self, reps: Float[Tensor, "images dim"], clean: Float[Tensor, "population dim"]) -> Tensor:
        """Return 1 where the original is still nearest, [M].

        Args:
            reps: of the first images of the population, disturbed.
            clean: of the population.
        """
        # Eq. 4: no other image strictly nearer than the clean original
        nearer, _ = pairwise.closer(reps, clean, torch.arange(len(reps)), self.divergence)
        return (nearer == 0).double()

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the share of images that are found."""
        return Share(table[f"found@{name}"], condition=CONDITION)
