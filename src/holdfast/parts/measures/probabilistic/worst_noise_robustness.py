"""Worst-noise robustness (NPPR): how often an image holds under the worst noise that could be learned."""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from holdfast.core import Ball, Chart, Observation, Score, Table
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.measures.shared.chance import DrawnMeasure
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.parts.threats.linf import Linf

STRUCTURES = ("joint", "input", "label", "independent")
"""What a learned noise knows of an image, from the most (which can do the most harm) to the least."""


@dataclass(frozen=True)
class WorstNoiseRobustness(DrawnMeasure):
    """NPPR = inf_ω E_x P_{x' ~ ω(x)}[x' does not fail] over noises ω in a ball, as a learned mixture comes near to it.

    The mixture is learned on images that the audit does not attack and judged by draws for those that it does. It is
    one of the noises allowed, so its PR is an upper bound of NPPR: a better learner can only lower it.

    Attributes:
        learner: how the mixture is learned, and what it depends on: nothing, the label, the image, or both.
        ball: where its draws lie.
    """

    learner: WorstMixture = WorstMixture()
    ball: Ball = Linf(0.05)

    condition = "given the learned noise"
    question = "How often does an image hold under the most harmful noise that can be learned within this ball?"
    how_to_read = (
        "It lies between adversarial robustness (one worst point per image) and probabilistic robustness (a noise that "
        "is assumed). It is an upper bound: noise that is learned better may do more harm."
    )
    reference = "Wang et al. (2025), Def. 3 and section 4"

    @property
    def worst_noise(self) -> WorstNoise:
        """The noise."""
        return WorstNoise(self.learner, self.ball, self.failure)

    @property
    @override
    def draws(self) -> Sampled:
        return Sampled(self.worst_noise, ((self.failure, self.estimator),), first=self.first)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the noise, draws."""
        return Clean(), self.worst_noise, self.draws

    def remarks(self) -> tuple[str, ...]:
        """Return that it is an upper bound."""
        return ("an upper bound: the learned noise is one of those allowed",)

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row among worst cases and given noises, and how `column` spreads over the images."""
        structure = self.learner.structure
        # The more a noise knows of an image the more harm it can do (NPPR,
        # Prop. 2), which orders the rows
        place = (1, STRUCTURES.index(structure) if structure in STRUCTURES else len(STRUCTURES))
        return self.row(f"worst noise ({structure})", place, self.ball), *super().charts(table, scores)
