"""Certified accuracy: how often a linear classifier is right whatever happens within the ball."""

from dataclasses import dataclass

from holdfast.core import Attack, Ball, LinearProbe, Observation, Subject, Table
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_order
from holdfast.parts.observations.attacked_pairs import AttackedPairs
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import lowest
from holdfast.parts.probes.linear import Linear
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class CertifiedAccuracy(Bracket):
    """Share of images with (e_y - e_j) · h(f(x')) > 0 for all j != y and all x' of the ball; h a linear head.

    attack: no x' of another class was found (robust accuracy); certificate: all lower bounds are positive. An image
    that h gets wrong without attack counts as wrong.

    Table, one row per image: `attack` and `certificate`, 1 or 0; `vacuous`, share of the bounds.

    Attributes:
        attack: how the lowest margin of the head is searched.
        probe: how the head comes about; trained on images that are not certified.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)
    probe: LinearProbe = Linear()

    statistic = "share"
    condition = "given the head"
    reads_labels = True
    better = "higher"
    unit = "share"
    question = "How accurate is a linear classifier on the representation, whatever happens within the ball?"
    how_to_read = (
        "Attack: the share of images still classified correctly after the attack. Certificate: the share proved to "
        "stay correct under any attack."
    )
    reference = (
        "Wang & Liu (2023), section 4.2 (certified accuracy, of which certified instance accuracy is the label-free "
        "twin)"
    )

    @property
    def certificate_side(self) -> Certified:
        """The certificate's side."""
        return Certified(self.certifier, self.ball, probe=self.probe, first=self.first)

    @property
    def attack_side(self) -> AttackedPairs:
        """The attack's side."""
        return AttackedPairs(self.attack, self.ball, probe=self.probe, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, certified margins, attacked margins."""
        return Clean(), self.certificate_side, self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return whether every image stays right, on both sides."""
        proved, attacked = subject.read(self.certificate_side), subject.read(self.attack_side)
        # Whatever any search of the run met in the ball counts, and not this attack's results alone
        margin, slack = lowest(subject, self.attack_side, self.ball, attacked["margin"], attacked["rounding"])
        in_order(subject.ids, proved["lower"], margin, slack)
        # The untargeted case, RVCL, Eq. 7: the margin against every other class must stay positive
        right = (margin > 0).all(1)
        return {
            "attack": right.double(),
            # Where an attack refutes a proof by less than rounding, the attack is believed
            "certificate": ((proved["lower"] > 0).all(1) & right).double(),
            "vacuous": proved["vacuous"].double().mean(1),
        }

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")
