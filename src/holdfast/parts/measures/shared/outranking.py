"""What an adversary does to queries: it moves them as far as it can, and for each k behind the first k results."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from holdfast.core import Attack, Ball, Measure, Observation, Search
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.observations.broken import Broken
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories

CLEAN, WORST = "clean", "worst found"
"""Kinds of queries: not attacked, and the worst of each that any search met."""


class Outranking(Measure):
    """A measure of search whose queries are attacked.

    Attributes:
        attack: how drift and being outranked are searched.
        ball: where, in pixels.
    """

    attack: Attack
    ball: Ball

    @property
    @abstractmethod
    def rank_searches(self) -> Mapping[Any, BreakingRadii | Broken]:
        """For each k, and each direction where there are two, the search for images that are not among the first k."""

    @property
    def drift(self) -> tuple[Attacked, ...]:
        """The trajectories that move representations as far as they can."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,))

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the trajectories, and what is pursued."""
        return Clean(), *self.drift, *self.rank_searches.values()

    @property
    def searches(self) -> tuple[Search, ...]:
        """The search for drift, as a whole where it is that of an ensemble, and what is pursued."""
        # The search for drift stands first, where measures look for it
        others = (search for observation in self.rank_searches.values() for search in observation.searches)
        return (Search(self.attack, self.ball, Untargeted()), *others)
