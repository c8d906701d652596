"""Overlap risk: how often two images, attacked towards each other, pass each other by."""

from dataclasses import dataclass

from holdfast.core import Objective, Subject, Table
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.measures.shared.pairs import compare_pairs
from holdfast.parts.objectives.targeted import Targeted


@dataclass(frozen=True)
class OverlapRisk(AttackMeasure):
    """P[ d(f(x_i), f(x̂_j→i)) < d(f(x_i), f(x̂_i→j)) ] over pairs, from the side of each of the two images.

    Table: `overlap@STEP` and the columns of `compare_pairs`, one row per attacked image (two rows per pair; the
    interval counts pairs).
    """

    objective: Objective = Targeted()

    targeted = True
    per_image = "overlap"
    statistic = "share"
    better = "lower"
    unit = "share"
    question = "How often does another image, attacked towards x, come closer to x than x attacked towards that image?"
    how_to_read = (
        "0 % means that the neighbourhoods of two images never overlap. Where they do overlap, no system that reads "
        "only the representation can tell the two images apart under attack."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 2 and appendix C.8"

    def observe(self, subject: Subject) -> Table:
        """Return the overlap of every attacked image with its partner."""
        table = compare_pairs(self, subject)
        # Eq. 2, strict, from the side of each of the two images
        overlaps = {f"overlap@{step}": (table[f"other@{step}"] < table[f"own@{step}"]).double() for step in self.steps}
        return table | overlaps
