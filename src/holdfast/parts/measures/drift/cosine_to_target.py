"""Cosine to target: how similar a targeted attack makes a representation to that of another image."""

from dataclasses import dataclass

import torch

from holdfast.core import Objective, Subject, Table
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.attacked import pair_of, partners
from holdfast.parts.quantities.similarity import compare


@dataclass(frozen=True)
class CosineToTarget(AttackMeasure):
    """cos(f(x̂→t), f(t)) under a targeted attack; the score is the median over images and their partners t.

    Table: `similarity@STEP`, `clean`, cos(f(x), f(t)) before the attack, and `pair`, one row per attacked image.
    `divergence` is not used: the comparison is the cosine.
    """

    invariant = DIRECTIONS

    objective: Objective = Targeted()

    targeted = True
    usual = (5, 10, 30, 50)
    per_image = "similarity"
    statistic = "median"
    better = "lower"
    unit = "similarity"
    question = "How similar (cosine) can an attack make an image's representation to that of another image?"
    how_to_read = (
        "1 means that the attack impersonates the other image perfectly. Compare it with the similarity of the clean "
        "images."
    )
    reference = "Petrov & Kwiatkowska (2022), appendix B (cosine similarity)"

    def observe(self, subject: Subject) -> Table:
        """Return the similarity of every attacked image to its partner."""
        clean, attacked = self.read_reps(subject)
        # Where each image's partner stands, which was also the target of its attack
        target = partners(torch.arange(subject.attacked))
        table: Table = {"pair": pair_of(target), "clean": compare(clean[: subject.attacked], clean, target)}
        return table | {f"similarity@{step}": compare(reps, clean, target) for step, reps in attacked.items()}
