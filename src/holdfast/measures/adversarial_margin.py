"""Adversarial margin: how clearly two images stay apart when both are attacked towards each other."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast import statistics
from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Objective, Score, Subject, Table
from holdfast.measures._attack_measure import PAPER, AttackMeasure
from holdfast.measures._pairs import attacked_pairs
from holdfast.objectives.targeted import Targeted


@dataclass(frozen=True)
class AdversarialMargin(AttackMeasure):
    """( d(f(x_i), f(x̂_j→i)) - d(f(x_i), f(x̂_i→j)) ) / d(f(x_i), f(x_j)); the score is the median over pairs.

    Negative margins are overlaps. Undefined (left out, counted) where two images have the same representation.

    Table: `margin@STEP` and the columns of `attacked_pairs`, one row per attacked image (two rows per pair; the
    interval counts pairs).
    """

    attack: Attack = Pgd(10, 0.001, keep="last")
    objective: Objective = Targeted()

    targeted = True
    better = "higher"
    unit = "ratio"
    question = "How clearly do two images stay apart when each is attacked towards the other?"
    how_to_read = (
        "100 % means that the attacks moved nothing, 0 % that the two meet, below 0 that they pass each other."
    )
    reference = f"{PAPER}, section 5 (adversarial margin) and appendix C.8"

    @property
    def column(self) -> str:
        """The margin at the last read-out."""
        return f"margin@{self.steps[-1]}"

    def observe(self, subject: Subject) -> Table:
        """Return the margin of every attacked image to its partner."""
        table = attacked_pairs(self, subject)
        apart = table["apart"]
        margins = {
            f"margin@{step}": torch.where(apart > 0, (table[f"other@{step}"] - table[f"own@{step}"]) / apart, torch.nan)
            for step in self.steps
        }
        return table | margins

    def score(self, table: Table) -> dict[str, Score]:
        """Return the median margin at every read-out."""
        return {
            self.attack.label(step): statistics.median(table[f"margin@{step}"], table["pair"]) for step in self.steps
        }

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each pair's influence on the median."""
        return statistics.by_unit(statistics.influence_of_median(table[self.column]), table["pair"])
