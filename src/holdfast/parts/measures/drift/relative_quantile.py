"""Relative quantile: how much of the way to another image's representation is left after a targeted attack."""

from dataclasses import dataclass

import torch

from holdfast.core import Objective, Subject, Table
from holdfast.core.divergence import require_distance
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.attacked import pair_of, partners


@dataclass(frozen=True)
class RelativeQuantile(AttackMeasure):
    """r(x, t) = d(f(x̂→t), f(t)) / d(f(x), f(t)); the score is the median over images and their partners t.

    The denominator is the clean distance. It is undefined (and left out, counted) where two images have the same
    representation. Both directions of a pair are rows; the interval counts pairs.

    Table: `ratio@STEP` and `pair`, one row per attacked image.
    """

    objective: Objective = Targeted()

    targeted = True
    usual = (5, 10, 30, 50)
    per_image = "ratio"
    statistic = "median"
    better = "higher"
    unit = "ratio"
    question = "How much of the distance to another image is left after an attack towards it?"
    how_to_read = (
        "At 1 the attack came no closer to the other image's representation, above 1 it ended farther away, and at 0 "
        "it impersonates the other image perfectly."
    )
    reference = "Petrov & Kwiatkowska (2022), section 5 (relative quantiles)"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_distance(self.divergence, "relative_quantile")

    def observe(self, subject: Subject) -> Table:
        """Return the ratio of every attacked image."""
        clean, attacked = self.reps(subject)
        positions = torch.arange(subject.attacked)
        own, target = clean[positions], clean[partners(positions)]
        # The denominator of section 5: the distance of the two clean images
        before = self.divergence(own, target)
        table: Table = {"pair": pair_of(positions)}
        for step, reps in attacked.items():
            ratio = self.divergence(reps, target) / before
            # Twins have no way between them that could be covered
            table[f"ratio@{step}"] = torch.where(before > 0, ratio, torch.nan)
        return table
