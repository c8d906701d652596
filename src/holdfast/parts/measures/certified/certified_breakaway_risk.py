"""Certified breakaway risk: what share of the other images an attacked image can never be nearer to."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Subject, Table
from holdfast.numerics.statistics.statistic import PairMean, Statistic
from holdfast.parts.measures.shared.population import AgainstPopulation


@dataclass(frozen=True)
class CertifiedBreakawayRisk(AgainstPopulation):
    """p = 1/(|D'| (|D|-1)) Σ_{x∈D'} Σ_{x'∈D, x'≠x} 1[ some x̂ has d(f(x̂), f(x')) < d(f(x̂), f(x)) ].

    attack: x̂ is anything that a search of the run met in the ball, whatever it pursued, another one for each pair; the
    breakaway risk of Eq. 1, for which x̂ is the one image that pursues drift, is at most that. certificate: the share
    of pairs for which the lower bound of the margin is negative. Every attack is below that.

    Table, one row per image of the population D: for both sides the share of the others that can be nearer (NaN where
    x was not certified), and `SIDE intrudes`, the share of those images that it can intrude on; `vacuous`.
    """

    better = "lower"
    unit = "share"
    question = "What share of all other images can come closer to an attacked image than its own original?"
    how_to_read = (
        "Attack: the share of other images that the attacks of this audit made closer than the original. Certificate: "
        "the share that is not proved to be safe from every attack."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 1, certified through the linear pair margin of Wang & Liu (2023)"

    def observe(self, subject: Subject) -> Table:
        """Return both roles of every image on both sides."""
        # Appendix C.7: all pairs of an image that is attacked and another one of the population
        broken, unproved, vacuous = self.find_broken_pairs(subject)
        table = _roles("attack", broken) | _roles("certificate", unproved)
        return table | {"vacuous": _pad_with_nan(vacuous, subject.population)}

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean over ordered pairs."""
        return PairMean(table[column], table[f"{column} intrudes"])


def _roles(side: str, pairs: Bool[Tensor, "images population"]) -> Table:
    images, population = pairs.shape
    others = torch.full((population,), float(images), dtype=torch.float64)
    others[:images] -= 1  # an image does not intrude on itself
    # Both roles of an image: how many others it breaks away to, and how many break away to it
    rows = pairs.double().sum(1) / (population - 1)
    return {side: _pad_with_nan(rows, population), f"{side} intrudes": pairs.double().sum(0) / others.clamp_min(1)}


def _pad_with_nan(values: Float[Tensor, "images"], population: int) -> Float[Tensor, "population"]:
    padded = torch.full((population,), torch.nan, dtype=torch.float64)
    padded[: len(values)] = values
    return padded
