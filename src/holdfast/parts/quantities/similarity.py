"""The cosine of a representation with itself before."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.numerics.statistics.statistic import Median, Statistic

ROWS = 4096
"""Representations that are turned into float64 at a time."""


@dataclass(frozen=True)
class Similarity(Quantity):
    """cos(f(x'), f(x)); the median over images.

    Table, one row per disturbed image: `similarity`.
    """

    invariant = DIRECTIONS

    per_image = "similarity"
    better = "higher"
    unit = "similarity"
    question = "How similar (cosine) is the representation of a disturbed image to that of its original?"
    how_to_read = "1 means the same direction, 0 orthogonal, -1 opposite."
    reference = "Petrov & Kwiatkowska (2022), appendix B (cosine similarity)"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return the similarity of every disturbed image."""
        return {f"similarity@{name}": compare(reps, clean, torch.arange(len(reps))) for name, reps in moved.items()}

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the median."""
        return Median(table[f"similarity@{name}"])


def compare(
    reps: Float[Tensor, "rows dim"], clean: Float[Tensor, "population dim"], places: Int[Tensor, "rows"]
) -> Float[Tensor, "rows"]:
    """Return the cosine of each representation and the clean one at a place, in float64, some rows at a time.

    Copies of all in float64, and of all partners, would take several times the memory of the representations.
    """
    values = torch.empty(len(reps), dtype=torch.float64, device=reps.device)
    # `part` is a view of the result, written in place
    for rows, at, part in zip(reps.split(ROWS), places.split(ROWS), values.split(ROWS), strict=True):
        part.copy_(1 - cosine(rows.double(), clean[at].double()))
    return values
