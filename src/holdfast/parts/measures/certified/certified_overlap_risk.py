"""Certified overlap risk: how often the neighbourhoods of two images are not proved to be apart."""

from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Observation, Search, Subject, Table

# REST ['l2']
from holdfast.numerics.geometry.invariance import EVERY
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_order
from holdfast.parts.measures.shared.drift import drift_bounds
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.observations.attacked import Attacked, pair_of, partners
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.drifts import Drifts
from holdfast.parts.observations.shared.worst import trajectories
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue
from holdfast.runtime.rounding import REPRESENTATIONS


@dataclass(frozen=True)
class CertifiedOverlapRisk(Bracket):
    """P[ d(f(x_i), f(x̂_j)) < d(f(x_i), f(x̂_i)) for some x̂_i and x̂_j of their balls ], d = ℓ2.

    attack: x̂_i and x̂_j are anything that a search of the run met in their balls (those of Eq. 2 pursue the distance
    to the other one); certificate: the pair counts unless the least distance of x̂_j from x_i is proved to be at least
    the largest drift of x_i.

    Table, one row per image (two rows per pair; the interval counts pairs): `attack` and `certificate`, 1 where they
    can overlap; `reach`, upper bound of the drift of x_i; `apart`, lower bound of the distance of x̂_j; `pair`;
    `vacuous`.

    Attributes:
        attack: how the targeted attack searches.
        first: must be even: images come in pairs.
    """

    invariant = EVERY

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(50)

    statistic = "share"
    better = "lower"
    unit = "share"
    question = "How often can another image, changed within the ball, come closer to x than x itself can be moved?"
    how_to_read = (
        "Attack: the share of neighbourhoods that the attacks of this audit made overlap. Certificate: the share that "
        "is not proved to stay apart."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 2, certified by bound propagation"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first is not None and self.first % 2:
            raise BadValue(f"certified_overlap_risk: first: expected an even number of images, got {self.first}")

    @property
    def certificate_side(self) -> Drifts:
        """The certificate's side."""
        return Drifts(self.certifier, self.ball, first=self.first)

    @property
    def attack_side(self) -> tuple[Attacked, ...]:
        """The attack's side."""
        return trajectories(self.attack, self.ball, Targeted(), (self.attack.steps,), self.first)

    @property
    def searches(self) -> tuple[Search, ...]:
        """The attack's side, as a whole where it is that of an ensemble."""
        return (Search(self.attack, self.ball, Targeted()),)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, ranges of representations, attacks."""
        return Clean(), self.certificate_side, *self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return whether every image and its partner can overlap, on both sides."""
        # certificate: the farthest that f(x') can be from f(x), and the nearest that the partner's can come to f(x)
        bank, ranges = Clean.of(subject).double(), subject.read(self.certificate_side)
        positions = torch.arange(len(ranges["apart"]))
        partner, clean = partners(positions), bank[: len(positions)]
        # Row i of `apart` belongs to the partner: the least distance of x̂_j from f(x_i)
        reach, apart = drift_bounds(ranges, clean)["l2"], ranges["apart"][partner]
        # attack: the farthest and the nearest that any search of the run reached
        farthest, nearest = torch.zeros_like(reach), L2()(clean[partner], clean)
        # Points of an image serve in both roles: how far it goes, and
        # how near it comes to its partner
        for points in subject.collect_points(self.ball):
            count = min(len(points), len(positions)) // 2 * 2  # whole pairs
            for reps in points[:count].unbind(1):
                farthest[:count] = farthest[:count].maximum(L2()(reps, clean[:count]))
                nearest[:count] = nearest[:count].minimum(L2()(reps[partner[:count]], clean[:count]))
        # overlap where the partner may come nearer to f(x) than the image itself goes away from it
        rounding = 4 * REPRESENTATIONS * float(clean.norm(dim=1).max())
        in_order(subject.ids, farthest, reach, rounding)
        in_order(subject.ids, apart, nearest, rounding)
        attack = nearest < farthest
        return {
            "pair": pair_of(positions),
            "attack": attack.double(),
            # An overlap that was found counts even where rounding let a bound exclude it
            "certificate": ((apart < reach) | attack).double(),
            "reach": reach,
            "apart": apart,
            "vacuous": ranges["vacuous"],
        }

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")
