"""Observations that learn what disturbs all images, on the last images of an audit, so that others judge it."""

from dataclasses import dataclass

from holdfast.core import Ball, Failure, Observation, Passes, Scope
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.shared.learner import Learner
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Learning(Observation):
    """Something is learned that makes many images fail; it is judged on other images, see `count_held_out`.

    Attributes:
        learner: how it is learned.
        ball: where disturbed images lie.
        failure: what it seeks.
    """

    learner: Learner
    ball: Ball = Linf()
    failure: Failure = Nearest()

    scope = Scope.LAST

    def key(self) -> Observation:
        """Everything about it decides what is learned."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """The images that are not attacked, or half of the population where these are fewer; the last ones of them."""
        left = max(population - attacked, population // 2)
        return left if self.learner.images is None else min(self.learner.images, left)

    def count_held_out(self, population: int, attacked: int) -> int:
        """Return how many images, the first ones of those attacked, have not been learned from."""
        return min(attacked, population - self.images(population, attacked))

    @property
    def passes(self) -> Passes:
        """Those of the learner for each image."""
        return self.learner.passes_in(self.ball)
