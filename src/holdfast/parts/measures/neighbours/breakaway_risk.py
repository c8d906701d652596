"""Breakaway risk: how often an attacked image is nearer to another image than to itself."""

from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Subject, Table
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.quantities.nearer import Nearer


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
        return self._ask(Nearer(self.divergence), subject, *self.reps(subject))
