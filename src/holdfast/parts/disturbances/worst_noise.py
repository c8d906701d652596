"""The noise of a ball that does the most harm, as far as it can be learned."""

from dataclasses import dataclass

from holdfast.core import Ball, Failure, Observation
from holdfast.core.disturbance import Disturbance
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.worst_noise import WorstNoise as LearnedNoise
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class WorstNoise(Disturbance):
    """x' ~ ω(x): one draw of a noise that was learned on other images, so that as many draws fail as it can.

    Attributes:
        learner: how it is learned, and what it knows of an image.
        ball: where its draws lie.
        failure: what it seeks.

    Source: Wang et al. (2025), Def. 3 and section 4.
    """

    learner: WorstMixture = WorstMixture()
    ball: Ball = Linf(0.05)
    failure: Failure = Nearest()

    note = "of the noises in this ball one that was learned: another may do more harm"

    @property
    def title(self) -> str:
        """What is learned, and where."""
        return f"worst noise ({self.learner.structure}), {self.ball.title}"

    @property
    def noise(self) -> LearnedNoise:
        """The noise."""
        return LearnedNoise(self.learner, self.ball, self.failure)

    def observations(self) -> tuple[Observation, ...]:
        """Return the noise, and images that met one draw of it."""
        # The noise first: `Represented` reads it, and leaves out the images it was learned on
        return self.noise, Represented(threat=self.noise, first=self.first)
