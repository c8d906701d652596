"""Certified radius: how far an image is proved to stay itself, and how near it was broken."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import AnyDivergence, Ball, Observation, Subject, Table
from holdfast.numerics.statistics.drawn_pairs import DrawnMean
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.shared.bracket import Bracket, in_both_roles, in_order
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.minimal_radii import MinimalRadii
from holdfast.parts.observations.radii import Radii
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class CertifiedRadius(Bracket):
    """ACR_CL = mean over images of the mean over K negatives of R, the largest ε with min m(x') > 0 in the ε-ball.

    m is the pair margin "nearer to x⁺ than to x⁻". The certificate is what a certifier proves (0 where it proves
    nothing), the attack the smallest change found that confuses the pair: R of every pair lies between the two.

    Table, one row per image of the population, NaN where it was not certified, radii in pixels: `certificate` and
    `attack`, means over its negatives; `least` and `least attack`, of its nearest one; `certified`, the share of its
    pairs with a radius above 0; `pairs`, how many it has; `SIDE contributes`, what each image contributes to the mean,
    also as a negative of others.

    Attributes:
        ball: the norm of the radius; its own radius is not read.
        negatives: K, drawn for each image by the seed from the other images of the population.
        divergence: "cosine" or "l2", what "nearer" means.
        steps: of the search for the smallest attack on each pair.
        tolerance: of the search for the certified radius, in pixels.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf()
    negatives: int = 10
    divergence: AnyDivergence = Cosine()
    steps: int = 40
    tolerance: float = 1e-6

    shown_by = ("certificate", "attack")
    most = None
    better = "higher"
    in_brief = True
    unit = "pixels"
    question = "How far can an image move before it can be taken for another image?"
    how_to_read = (
        "Averaged over pairs of images: no change smaller than the certified radius (pixels of a [0, 1] image, in the "
        "norm of the ball) makes an image more similar to the other one than to itself; a change of the attack's size "
        "does."
    )
    reference = "Wang & Liu (2023), Definition 4, Algorithm 1 and Eq. 18"

    @property
    def certificate_side(self) -> Radii:
        """The certificate's side."""
        return Radii(
            self.certifier, self.ball, self.tolerance, negatives=self.negatives, divergence=self.divergence,
            first=self.first,
        )  # fmt: skip

    @property
    def attack_side(self) -> MinimalRadii:
        """The attack's side."""
        return MinimalRadii(
            self.ball, self.steps, negatives=self.negatives, divergence=self.divergence, first=self.first
        )

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, certified radii, smallest attacks."""
        return Clean(), self.certificate_side, self.attack_side

    def observe(self, subject: Subject) -> Table:
        """Return both radii of every image."""
        proved, attacked = subject.read(self.certificate_side)["radius"], subject.read(self.attack_side)["radius"]
        # RVCL, Eq. 14: R lies between the two, pair by pair
        in_order(subject.ids, proved, attacked, 1e-6)
        # Where no attack was found there is no radius to average
        attacked = attacked.masked_fill(attacked.isinf(), torch.nan)
        sides, has = {"attack": attacked, "certificate": proved}, (proved > 0).double()
        table = {
            "attack": attacked.mean(1),
            "certificate": proved.mean(1),
            # The nearest negative is that of the smallest radius; NaN must not decide which
            "least attack": attacked.nan_to_num(torch.inf).amin(1),
            "least": proved.amin(1),
            "certified": has.mean(1),
            "pairs": torch.full((len(proved),), float(proved.shape[1]), dtype=torch.float64),
        }
        # Eq. 18 averages over pairs: an image counts in them as x⁺, and as a negative of others
        return in_both_roles(subject, table, sides | {"certified": has})

    def remarks(self, table: Table) -> str:
        """Return how many pairs have no certified radius."""
        pairs, failed = (round(float((share * table["pairs"]).nansum())) for share in (1.0, 1 - table["certified"]))
        uncertified = f"{failed:,} of {pairs:,} pairs have no certified radius and count as 0" if failed else ""
        fewer = int(table["pairs"][0]) if len(table["pairs"]) else self.negatives
        few = f"only {fewer} other images to draw negatives from" if fewer != self.negatives else ""
        return "; ".join(filter(None, [uncertified, few]))

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of pairs with a certified radius, the radius of the nearest negative, and both sides."""
        # A share beside radii, which are in pixels
        share = DrawnMean(table["certified"], table["certified contributes"], most=1.0).say("share")
        nearest = {name: self._nearest(table[column]) for name, column in _NEAREST.items()}
        return {"pairs with a certificate": share} | nearest | super().reduce(table)

    def _nearest(self, radii: Float[Tensor, "population"]) -> Statistic:
        condition = "given this population, from which the negatives come"
        return Mean(radii, condition=condition, among=~radii.isnan())


_NEAREST = {"attack, nearest negative": "least attack", "certificate, nearest negative": "least"}
