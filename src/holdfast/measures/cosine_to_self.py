"""Cosine to self: how similar an attacked representation stays to its own."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast import statistics
from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Score, Subject, Table
from holdfast.divergences import cosine
from holdfast.measures._attack_measure import PAPER, AttackMeasure


@dataclass(frozen=True)
class CosineToSelf(AttackMeasure):
    """cos(f(x̂), f(x)) under an untargeted attack; the score is the median over images.

    Table: `similarity@STEP`, one row per attacked image. `divergence` is not used: the comparison is the cosine.
    """

    attack: Attack = Pgd(50, 0.001, keep="last")

    usual = (5, 10, 30, 50)
    better = "higher"
    unit = "similarity"
    question = "How similar, by cosine, does an attacked representation stay to its own clean one?"
    how_to_read = "1 is the same direction, 0 is at right angles, -1 is opposite."
    reference = f"{PAPER}, appendix B (cosine similarity)"

    @property
    def column(self) -> str:
        """The similarity at the last read-out."""
        return f"similarity@{self.steps[-1]}"

    def observe(self, subject: Subject) -> Table:
        """Return the similarity of every attacked image."""
        clean, attacked = self.reps(subject)
        return {f"similarity@{step}": 1 - cosine(reps, clean[: len(reps)]) for step, reps in attacked.items()}

    def score(self, table: Table) -> dict[str, Score]:
        """Return the median similarity at every read-out."""
        return {self.attack.label(step): statistics.median(table[f"similarity@{step}"]) for step in self.steps}

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each image's influence on the median."""
        return statistics.influence_of_median(table[self.column])
