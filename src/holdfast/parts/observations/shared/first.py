"""Observations of the first images of an audit."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

from holdfast.core import Ball, Observation
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True, kw_only=True)
class OfFirst(Observation):
    """An observation of the first images of an audit.

    Attributes:
        first: how many images; None: all that the audit attacks.
    """

    first: Count | None = None

    def __post_init__(self) -> None:
        if self.first is not None and self.first < 1:
            raise BadValue(f"{type(self).__name__}: first: expected at least 1 image, got {self.first}")

    @property
    @abstractmethod
    def title(self) -> str:
        """What it observes, in a few words."""

    def key(self) -> Observation:
        """How many images are observed changes nothing for any of them."""
        return replace(self, first=None)

    def join(self, twin: Observation) -> Observation:
        """Observe as many images as the one needs that needs more."""
        assert isinstance(twin, OfFirst)  # equal keys
        # None asks for all, which is more than any number
        return replace(self, first=None if None in (self.first, twin.first) else max(self.first or 0, twin.first or 0))

    def images(self, population: int, attacked: int) -> int:
        """The images that the audit attacks, or the first ones of them."""
        return attacked if self.first is None else min(self.first, attacked)


class OfAnyRadius:
    """What observations of the first images share that read the norm of a ball, and not its radius; stands first."""

    ball: Ball

    def key(self) -> Observation:
        """How many images are observed changes nothing for any of them, and the radius of the ball is not read."""
        return replace(cast("Any", self), first=None, ball=self.ball.of_usual_radius)
