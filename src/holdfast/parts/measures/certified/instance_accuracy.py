"""Instance accuracy: how many pairs of images an adversary cannot confuse, attacked and certified."""

from dataclasses import dataclass, replace

from holdfast.core import AnyDivergence, Attack, Ball, Objective, Observation, Subject, Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_both_roles, in_order
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.margins import MadeNegatives
from holdfast.parts.observations.shared.worst import lowest
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class InstanceAccuracy(Bracket):
    """A^ε = share of pairs (x⁺, x⁻) with m(x') > 0 for all x' of the ε-ball around x⁺.

    attack: no x' with m(x') <= 0 was found (robust instance accuracy), neither by the attack nor by another search of
    the run; certificate: the lower bound of m is positive.

    Table, shares of each image's negatives: `attack`, `certificate`, `vacuous`. Where negatives are drawn it has a row
    for each image of the population, NaN where it was not certified, and `SIDE contributes`: what each image
    contributes to the mean, also as a negative of others.

    Attributes:
        attack: how to search.
        objective: what the attack maximises: the margin, or for instance-wise PGD `instance_contrastive`.
        negatives: K, drawn for each image by the seed from the other images of the population; or what makes them:
            `adversarial_negatives`, one for each image, as in the paper's Table 4.
        divergence: "cosine" or "l2", what "nearer" means.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(30)
    objective: Objective = PairMargin()
    negatives: int | MadeNegatives = 10
    divergence: AnyDivergence = Cosine()

    better = "higher"
    unit = "share"
    question = "What share of image pairs can no change within the ball confuse?"
    how_to_read = (
        "Attack: the share of pairs left intact by the attack. Certificate: the share proved to stay intact under any "
        "attack. The truth lies between the two."
    )
    reference = "Wang & Liu (2023), Definition 3 and section 6.3 (Table 4)"

    @property
    def certificate_side(self) -> Certified:
        """The certificate's side."""
        return Certified(
            self.certifier, self.ball, negatives=self.negatives, divergence=self.divergence, first=self.first
        )

    @property
    def attack_side(self) -> AttackedPairs:
        """The attack's side."""
        return AttackedPairs(
            self.attack, self.ball, self.objective, negatives=self.negatives, divergence=self.divergence,
            first=self.first,
        )  # fmt: skip

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, negatives where they are made, certified margins, attacked margins."""
        negatives = (replace(self.negatives, first=self.first),) if isinstance(self.negatives, MadeNegatives) else ()
        return Clean(), *negatives, self.certificate_side, self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return both shares for every image."""
        proved, attacked = subject.read(self.certificate_side), subject.read(self.attack_side)
        # RVCL, Definition 10, Eq. 19: x' is the worst that any search of the run met, for each pair
        margin, slack = lowest(subject, self.attack_side, self.ball, attacked["margin"], attacked["rounding"])
        in_order(subject.ids, proved["lower"], margin, slack)
        intact = margin > 0
        # Definition 11, Eq. 20: the lower bound is positive; a pair that was
        # broken is not counted as proved
        sides = {"attack": intact.double(), "certificate": ((proved["lower"] > 0) & intact).double()}
        table = {side: values.mean(1) for side, values in sides.items()} | {
            "vacuous": proved["vacuous"].double().mean(1)
        }
        # Negatives that were made are no images of the population, which then have one role only
        return table if isinstance(self.negatives, MadeNegatives) else in_both_roles(subject, table, sides)

    def reduce_column(self, table: Table, column: str) -> Statistic:
        """Return the mean; where every image has one negative, a share with its exact interval."""
        # One yes or no for each image: an exact binomial interval
        if isinstance(self.negatives, MadeNegatives) and self.negatives.count == 1:
            return Share(table[column], condition=self.condition)
        return super().reduce_column(table, column)

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")
