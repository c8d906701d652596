"""Nearest-neighbour accuracy: how often an attacked image still finds itself among all clean images."""

from dataclasses import dataclass

import torch

from holdfast import neighbours
from holdfast.core import Subject, Table
from holdfast.measures._attack_measure import PAPER, AttackMeasure


@dataclass(frozen=True)
class NearestNeighbourAccuracy(AttackMeasure):
    """1/|D'| Σ_{x∈D'} 1[ no x'∈D, x'≠x, has d(f(x̂), f(x')) < d(f(x̂), f(x)) ].

    Table: `found@STEP`, 1 where the clean original is still nearest, one row per attacked image.
    """

    per_image = "found"
    statistic = "share"
    given = "given this population of images"
    better = "higher"
    unit = "share"
    question = "How often is an attacked image's nearest clean neighbour still its own original?"
    how_to_read = "100 % means that every attacked image is still recognised as itself among the whole population."
    reference = f"{PAPER}, Eq. 4"

    def observe(self, subject: Subject) -> Table:
        """Return whether every attacked image finds its original."""
        clean, attacked = self.reps(subject)
        table: Table = {}
        for step, reps in attacked.items():
            nearer, _ = neighbours.closer(reps, clean, torch.arange(len(reps)), self.divergence)
            table[f"found@{step}"] = (nearer == 0).double()
        return table
