"""The one perturbation of a ball that does the most harm to all images, as far as it can be learned."""

from dataclasses import dataclass

from holdfast.core import Ball, Failure, Observation
from holdfast.core.disturbance import Disturbance
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.given import Given
from holdfast.parts.learners.universal import Universal
from holdfast.parts.observations.perturbed import Perturbed
from holdfast.parts.observations.universal_perturbation import UniversalPerturbation as LearnedPerturbation
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class UniversalPerturbation(Disturbance):
    """x' = x + δ, cut off at 0 and 1; δ is learned on other images, so that as many fail as it can.

    Attributes:
        learner: how δ is found: `universal`, or `given`, a file with one that was learned on another encoder.
        ball: where it lies.
        failure: what it seeks.

    Source: Wang et al. (2025), appendix 7, Eq. 28.
    """

    learner: Universal | Given = Universal()
    ball: Ball = Linf(0.05)
    failure: Failure = Nearest()

    note = "of the perturbations in this ball one that was learned: another may do more harm"

    @property
    def title(self) -> str:
        """What is learned, and where."""
        return f"one perturbation ({self.learner.title}), {self.ball.title}"

    @property
    def perturbation(self) -> LearnedPerturbation:
        """The perturbation."""
        return LearnedPerturbation(self.learner, self.ball, self.failure)

    def observations(self) -> tuple[Observation, ...]:
        """Return the perturbation, and images under it."""
        # δ first: `Perturbed` reads it, and leaves out the images it was learned on
        return self.perturbation, Perturbed(self.perturbation, first=self.first)
