"""Adversarial robustness: how many images hold at the worst point that an attack finds."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from holdfast.core import Attack, Ball, Chart, Observation, Score, Subject, Table
from holdfast.core.registry import part_name
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.measures.shared.chance import ChanceMeasure
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class AdversarialRobustness(ChanceMeasure):
    """AR = E_x [1 - max_{x' in ball} 1[x' fails]], the maximum as far as it is known: an upper bound of AR.

    An image holds that nothing in this run has made fail within the ball: neither the attack, nor what the searches and
    the draws of other measures met, whatever they pursued.

    Table, one row per image: `held`, 1 or 0; `value`, above 0 where the attack made it fail: the largest value of the
    failure that it found, or, of the smallest change, how far inside of the ball it lies, in pixels; `wrong`, 1 where
    the image fails without a disturbance.

    Attributes:
        attack: how the worst point is searched; "pgd", "carlini_wagner", "ensemble", ... With "minimum_norm" it is read
            from the smallest changes after which images fail (`breaking_radius`), which tell of every ball at once.
        ball: where.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)

    question = "What share of images did no attack of this audit break?"
    how_to_read = (
        "No noise inside the ball can do more harm than the true worst point, so worst noise robustness and "
        "probabilistic robustness lie above this number."
    )
    reference = "Wang et al. (2025), Def. 1 and 4"

    @property
    def attack_outcome(self) -> Broken | BreakingRadii:
        """The attack that it reads."""
        if isinstance(self.attack, MinimumNorm):
            return BreakingRadii(self.ball.of_usual_radius, self.failure, self.attack.steps, first=self.first)
        return Broken(self.attack, self.ball, self.failure, first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations and the attack."""
        return Clean(), self.attack_outcome

    def observe(self, subject: Subject) -> Table:
        """Return which images hold."""
        observed = subject.read(self.attack_outcome)
        if "radius" in observed:
            # A smallest change tells of every ball: it lies inside where the radius is
            # larger; 0 is an image wrong by itself
            radius = observed["radius"]
            inside, wrong = self.ball.radius - radius, (radius == 0).double()
            value = torch.where(inside == 0, torch.finfo(inside.dtype).tiny, inside)  # what fails on the edge fails
        else:
            value, wrong = observed["value"], observed["wrong"]
        # NPPR, Def. 1, for the worst that any measure of the run has met, by a search or by a draw
        others = subject.broke(self.failure, self.ball)[: len(value)]
        # An image that fails as it is does not hold; whether it counts is decided next
        held = ((value <= 0) & ~others).double() * (1 - wrong)
        return {"held": self.exclude_wrong(held, wrong), "value": value, "wrong": wrong}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share of images that hold."""
        return {"images that hold": self.annotate(table, Share(table["held"], condition=self.condition))}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row among worst cases and given noises, and how `column` spreads over the images."""
        return self.row(f"attack ({part_name(self.attack)})", (0,), self.ball), *super().charts(table, scores)
