"""Tightness: how much of what a certificate allows an attack has actually reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch

from holdfast.core import AnyDivergence, Attack, Ball, Objective, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Scatter
from holdfast.numerics.statistics.statistic import Mean, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.certifiers.crown import Crown
from holdfast.parts.certifiers.shared.certifier import Propagation
from holdfast.parts.divergences.cosine import Cosine
from holdfast.parts.measures.certified.instance_accuracy import InstanceAccuracy
from holdfast.parts.measures.shared.bracket import Bracket, format_share, in_order
from holdfast.parts.objectives.pair_margin import PairMargin
from holdfast.parts.observations.shared.margins import MadeNegatives
from holdfast.parts.observations.shared.worst import lowest
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Tightness(Bracket):
    """t = (m(x) - m_attack) / (m(x) - m_certificate) of each pair, the mean over K negatives, the median over images.

    m_attack is the lowest margin that was found in the ball, m_certificate its lower bound; 1 - t is the relative gap.
    100 % leaves nothing unknown. Undefined where the margin cannot move.

    Table, one row per image: `tightness`; `vacuous`, share of its bounds that say nothing; `lower` and `found`, bound
    and attack of its first negative in units of the clean margin (1: nothing happened, 0: the pair is confused).

    Attributes:
        attack: how to search.
        objective: what the attack maximises.
        negatives: K, drawn for each image by the seed from the other images of the population; or what makes them.
        divergence: "cosine" or "l2", of the margin.
    """

    certifier: Propagation = Crown()
    ball: Ball = Linf(0.05)
    attack: Attack = Apgd(30)
    objective: Objective = PairMargin()
    negatives: int | MadeNegatives = 10
    divergence: AnyDivergence = Cosine()

    statistic = "median"
    better = "higher"
    unit = "share"
    question = "Of the drift that the certificate cannot exclude, how much did the attack achieve?"
    how_to_read = (
        "100 % means that bound and attack meet, so the true worst case is known. A low value means a loose certifier "
        "or a weak attack; it describes the method, not the encoder's robustness."
    )
    reference = "Wang & Liu (2023), section 6.3 (Figure 7)"

    @property
    def _pairs(self) -> InstanceAccuracy:
        return InstanceAccuracy(
            self.certifier, self.ball, self.attack, self.objective, self.negatives, self.divergence, first=self.first
        )

    @property
    def column(self) -> str:
        """The tightness."""
        return "tightness"

    @property
    def condition(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the intervals are conditional on: the population only where the negatives come from it."""
        drawn = not isinstance(self.negatives, MadeNegatives)
        return "given this population, from which the negatives come" if drawn else ""

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, certified margins, attacked margins."""
        return self._pairs.observations()

    def observe(self, subject: Subject) -> Table:
        """Return tightness of every image, and both values of its first negative."""
        proved, searched = subject.read(self._pairs.certificate_side), subject.read(self._pairs.attack_side)
        rounding = searched["rounding"]
        attacked, slack = lowest(subject, self._pairs.attack_side, self.ball, searched["margin"], rounding)
        in_order(subject.ids, proved["lower"], attacked, slack)
        # A bound above what was found is so by rounding alone
        clean, lower = searched["clean"], proved["lower"].minimum(attacked)
        # How far the certificate lets the margin fall; the attack's share of it is the tightness
        gap = clean - lower
        # A margin that cannot move by more than rounding leaves nothing to reach
        reached = torch.where(gap > rounding, (clean - attacked) / gap, torch.nan)
        # The points of Figure 7, in units of the clean margin so that images can share the axes
        first = clean[:, 0].where(clean[:, 0] > rounding[:, 0], torch.nan)
        return {
            "tightness": reached.nanmean(1),
            "vacuous": proved["vacuous"].double().mean(1),
            "lower": lower[:, 0] / first,
            "found": attacked[:, 0] / first,
        }

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search that the certificate is compared with."""
        return super().relies_on("attack") if score == self.column else ()

    def if_weak(self, score: str) -> Literal["at least", "at most", "void"]:
        """A stronger attack reaches more of what is not excluded."""
        return "at least"

    def remarks(self, table: Table) -> str:
        """Return how many bounds say nothing."""
        return format_share(table, "vacuous", "of the bounds vacuous")

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of vacuous bounds and the tightness."""
        vacuous = Mean(table["vacuous"], condition=self.condition, most=1.0).say(better="lower")
        return {"vacuous": vacuous, "tightness": self.reduce_column(table, "tightness")}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return bound against attack, and how `column` spreads over the images."""
        chart = Scatter(
            heading="How tight the certificates are",
            how_to_read=(
                "One point per image and its first negative, in units of the clean margin: right is what the strongest "
                "attack left of it, up is what is proved to be left. On the dashed line both meet and the worst case "
                "is known; below the solid line nothing is proved, and what is at the left of 0 was broken."
            ),
            x="found",
            y="lower",
            across="margin after the attack",
            label="certified margin",
        )
        return chart, *super().charts(table, scores)
