"""Breakaway risk: how often an attacked image is nearer to another image than to itself."""

from dataclasses import dataclass

import torch
from typing_extensions import override

from holdfast.core import Subject, Table
from holdfast.numerics.geometry import pairwise
from holdfast.parts.measures.shared.attack_measure import AttackMeasure


@dataclass(frozen=True)
class BreakawayRisk(AttackMeasure):
    """p = 1/(|D'| (|D|-1)) Σ_{x∈D'} Σ_{x'∈D, x'≠x} 1[ d(f(x̂), f(x')) < d(f(x̂), f(x)) ], all pairs, strict.

    Table, one row per image of the population D: `broken@STEP`, the share of the others that are nearer to x̂ than x
    is (NaN where x was not attacked), and `intrudes@STEP`, the share of the other attacked images that it is nearer
    to than they are to themselves.
    """

    per_image = "broken"
    statistic = "pair mean"
    better = "lower"
    in_brief = True
    unit = "share"
    question = "After an attack, what share of all other images is closer to the attacked image than its own original?"
    how_to_read = (
        "0 % means that no attack brought any image closer to another one than to its original. 50 % is no "
        "better than chance: nothing of the original is left."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 1 and appendix C.7"

    @property
    @override
    def gloss(self) -> str:
        return "others that came nearer"

    def observe(self, subject: Subject) -> Table:
        """Return both roles of every image."""
        clean, attacked = self.reps(subject)
        population, table = len(clean), {}
        for step, reps in attacked.items():
            # Appendix C.7, all |D'| (|D| - 1) pairs: how many are nearer to each x̂, and how
            # often each image is such a one
            nearer, intrusions = pairwise.closer(reps, clean, torch.arange(len(reps)), self.divergence)
            # NaN for images that were not attacked: they are in pairs as the other image only
            broken = torch.full((population,), torch.nan, dtype=torch.float64)
            broken[: len(reps)] = nearer.double() / (population - 1)
            others = torch.full((population,), float(len(reps)), dtype=torch.float64)
            others[: len(reps)] -= 1  # an attacked image does not intrude on itself
            table[f"broken@{step}"], table[f"intrudes@{step}"] = broken, intrusions / others.clamp_min(1)
        return table
