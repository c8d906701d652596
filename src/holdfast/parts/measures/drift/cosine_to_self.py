"""Cosine to self: how similar an attacked representation stays to its own."""

from dataclasses import dataclass

from holdfast.core import Subject, Table
from holdfast.numerics.geometry.invariance import DIRECTIONS
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.quantities.similarity import Similarity


@dataclass(frozen=True)
class CosineToSelf(AttackMeasure):
    """cos(f(x̂), f(x)) under an untargeted attack; the score is the median over images.

    Table: `similarity@STEP`, one row per attacked image. `divergence` is not used: the comparison is the cosine.
    """

    invariant = DIRECTIONS

    usual = (5, 10, 30, 50)
    per_image = "similarity"
    statistic = "median"
    better = "higher"
    unit = "similarity"
    question = "How similar (cosine) is an attacked representation to the clean one?"
    how_to_read = "1 means the same direction, 0 orthogonal, -1 opposite."
    reference = "Petrov & Kwiatkowska (2022), appendix B (cosine similarity)"

    def observe(self, subject: Subject) -> Table:
        """Return the similarity of every attacked image."""
        # In float32: a few rows at a time are turned into float64
        return self._ask(Similarity(), subject, *self.read_reps(subject))
