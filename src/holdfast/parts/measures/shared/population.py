"""Both sides of the comparison of every attacked image with every other image of the population."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import AnyDivergence, Attack, Ball, Observation, Search, Subject, Table
from holdfast.core.divergence import require
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_order
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.certified import Certified
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.rounding import REPRESENTATIONS


@dataclass(frozen=True)
class AgainstPopulation(Bracket):
    """A measure that asks whether x' can be nearer to another image of the population than to x.

    Attributes:
        attack: how the untargeted attack searches.
        divergence: "l2" or "cosine", what "nearer" means.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)
    divergence: AnyDivergence = L2()

    @property
    def certificate_side(self) -> Certified:
        """The certificate's side: the margins against the whole population."""
        return Certified(self.certifier, self.ball, negatives=None, divergence=self.divergence, first=self.first)

    @property
    def attack_side(self) -> tuple[Attacked, ...]:
        """The attack's side: drift as far as it goes."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,), self.first)

    @property
    def searches(self) -> tuple[Search, ...]:
        """The attack's side, as a whole where it is that of an ensemble."""
        return (Search(self.attack, self.ball, Untargeted()),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, certified margins, attacks."""
        return Clean(), self.certificate_side, *self.attack_side

    def find_broken_pairs(
        self, subject: Subject
    ) -> tuple[Bool[Tensor, "images population"], Bool[Tensor, "images population"], Float[Tensor, "images"]]:
        """Return which pairs the attack broke, which ones are not proved to hold, and each image's vacuous share.

        A pair is broken where the other image is *strictly* nearer to anything that a search of this run met in the
        ball, whatever it pursued. An image is never broken by itself.
        """
        clean = Clean.of(subject).double()
        proved = subject.read(self.certificate_side)
        lower = proved["lower"]
        # Lengths of the margins' weights
        divergence = require(self.divergence, LinearDivergence, f"divergence of {type(self).__name__}")
        size = divergence.scores(clean).weights
        apart = pairwise.pairwise(size[: len(lower)], size, L2())
        broken = torch.zeros_like(lower, dtype=torch.bool)
        for points in subject.collect_points(self.ball):
            # Images that both sides know
            own = torch.arange(min(len(points), len(lower)))
            for reps in points[own].unbind(1):
                margin, ties = divergence.against(reps, clean, own)
                # What float32 may change w · f' by, from the lengths of both
                norms = torch.maximum(reps.norm(dim=1), clean.norm(dim=1).max())[:, None]
                rounding = 4 * REPRESENTATIONS * norms * apart[own]
                in_order(subject.ids, lower[own].nan_to_num(-torch.inf), margin, rounding + ties)
                # Strictly nearer, and never the image itself, whose lower bound is NaN
                broken[own] |= (margin < -ties) & ~lower[own].isnan()
        # Shares of the other images
        vacuous = (proved["vacuous"] & ~lower.isnan()).double().sum(1) / (len(clean) - 1)
        return broken, (lower < 0) | broken, vacuous

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")
