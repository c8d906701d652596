"""Observations of the images that probes learn from."""

from dataclasses import dataclass

from holdfast.core import Observation, Scope


@dataclass(frozen=True)
class OfTraining(Observation):
    """An observation of all training images, of which every parameter decides what is seen."""

    scope = Scope.TRAINING

    def key(self) -> Observation:
        """It shares a run with its equals only."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """All training images."""
        return population
