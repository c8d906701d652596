"""Overlap risk: how often two images, attacked towards each other, pass each other by."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast import statistics
from holdfast.attacks.pgd import Pgd
from holdfast.core import Attack, Objective, Score, Subject, Table
from holdfast.measures._attack_measure import PAPER, AttackMeasure
from holdfast.measures._pairs import attacked_pairs
from holdfast.objectives.targeted import Targeted


@dataclass(frozen=True)
class OverlapRisk(AttackMeasure):
    """P[ d(f(x_i), f(x̂_j→i)) < d(f(x_i), f(x̂_i→j)) ] over pairs, from the side of each of the two images.

    Table: `overlap@STEP` and the columns of `attacked_pairs`, one row per attacked image (two rows per pair; the
    interval counts pairs).
    """

    attack: Attack = Pgd(10, 0.001, keep="last")
    objective: Objective = Targeted()

    targeted = True
    better = "lower"
    unit = "share"
    question = "How often does another image, attacked towards x, come nearer to x than x attacked towards it remains?"
    how_to_read = (
        "0 % means that the neighbourhoods of two images never overlap; where they do, nothing that reads the "
        "representation can tell the two images apart under attack."
    )
    reference = f"{PAPER}, Eq. 2 and appendix C.8"

    @property
    def column(self) -> str:
        """Whether the pair overlaps at the last read-out."""
        return f"overlap@{self.steps[-1]}"

    def observe(self, subject: Subject) -> Table:
        """Return the overlap of every attacked image with its partner."""
        table = attacked_pairs(self, subject)
        overlaps = {f"overlap@{step}": (table[f"other@{step}"] < table[f"own@{step}"]).double() for step in self.steps}
        return table | overlaps

    def score(self, table: Table) -> dict[str, Score]:
        """Return the risk at every read-out."""
        return {
            self.attack.label(step): statistics.share(table[f"overlap@{step}"], table["pair"]) for step in self.steps
        }

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each pair's influence on the risk."""
        return statistics.by_unit(statistics.influence_of_mean(table[self.column]), table["pair"])
