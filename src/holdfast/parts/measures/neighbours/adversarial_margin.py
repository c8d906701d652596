"""Adversarial margin: how clearly two images stay apart when both are attacked towards each other."""

from dataclasses import dataclass

import torch

from holdfast.core import Objective, Subject, Table
from holdfast.core.divergence import require_distance
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.shared.pairs import compare_pairs
from holdfast.parts.objectives.targeted import Targeted


@dataclass(frozen=True)
class AdversarialMargin(AttackMeasure):
    """( d(f(x_i), f(x̂_j→i)) - d(f(x_i), f(x̂_i→j)) ) / d(f(x_i), f(x_j)); the score is the median over pairs.

    Negative margins are overlaps. Undefined (left out, counted) where two images have the same representation.

    Table: `margin@STEP` and the columns of `compare_pairs`, one row per attacked image (two rows per pair; the
    interval counts pairs).
    """

    objective: Objective = Targeted()

    targeted = True
    per_image = "margin"
    statistic = "median"
    better = "higher"
    unit = "ratio"
    question = "How far apart do two images stay when each is attacked towards the other?"
    how_to_read = (
        "100 % means that the attacks had no effect, 0 % that the two representations meet, and below 0 that they pass "
        "each other."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (adversarial margin) and appendix C.8"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_distance(self.divergence, "adversarial_margin")

    def observe(self, subject: Subject) -> Table:
        """Return the margin of every attacked image to its partner."""
        table = compare_pairs(self, subject)
        apart = table["apart"]
        margins = {
            # Section 5: negative exactly where Eq. 2 counts an overlap
            f"margin@{step}": torch.where(apart > 0, (table[f"other@{step}"] - table[f"own@{step}"]) / apart, torch.nan)
            for step in self.steps
        }
        return table | margins
