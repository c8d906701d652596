"""Observations of all images of their scope."""

from dataclasses import dataclass

from holdfast.core import Observation


@dataclass(frozen=True)
class OfAll(Observation):
    """An observation of all images of its scope, of which every parameter decides what is seen."""

    def key(self) -> Observation:
        """It shares a run with its equals only."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """All of them."""
        return population
