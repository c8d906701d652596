"""How many of the other images are nearer to a disturbed image than its original."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Subject, Table
from holdfast.core.quantity import Moved, Quantity
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.statistics.statistic import PairMean, Statistic
from holdfast.numerics.statistics.universal import pad_to_population
from holdfast.parts.divergences.l2 import L2


@dataclass(frozen=True)
class Nearer(Quantity):
    """1[ d(f(x'), f(x_j)) < d(f(x'), f(x)) ], x_j any other image of the population; the mean over ordered pairs.

    Table, one row per image of the population: `broken`, the share of the others that are nearer to x' than x is, NaN
    where x was not disturbed; `intrudes`, the share of the other disturbed images that it is nearer to than they are to
    themselves.

    Attributes:
        divergence: how representations are compared.
    """

    divergence: AnyDivergence = L2()

    per_image = "broken"
    better = "lower"
    unit = "share"
    question = "What share of all other images is closer to a disturbed image than its own original?"
    how_to_read = "0 % means that no image came closer to another one than to its original; 50 % is chance."
    reference = "Petrov & Kwiatkowska (2022), Eq. 1 and appendix C.7"

    def observe(self, subject: Subject, clean: Float[Tensor, "population dim"], moved: Moved) -> Table:
        """Return both roles of every image."""
        population, table = len(clean), {}
        for name, reps in moved.items():
            # Appendix C.7, all |D'| (|D| - 1) pairs: how many are nearer to each x', and how
            # often each image is such a one
            nearer, intrusions = pairwise.closer(reps, clean, torch.arange(len(reps)), self.divergence)
            others = torch.full((population,), float(len(reps)), dtype=torch.float64)
            others[: len(reps)] -= 1  # a disturbed image does not intrude on itself
            # Images that were not disturbed are in pairs as the other image only
            table[f"broken@{name}"] = pad_to_population(nearer.double() / (population - 1), population)
            table[f"intrudes@{name}"] = intrusions / others.clamp_min(1)
        return table

    def reduce(self, table: Table, name: str) -> Statistic:
        """Return the mean over ordered pairs, whose interval knows both roles of every image."""
        return PairMean(table[f"broken@{name}"], table[f"intrudes@{name}"])
