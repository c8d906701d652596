"""Nearest-neighbour accuracy: how often an attacked image still finds itself among all clean images."""

from dataclasses import dataclass
from typing import Literal

import torch
from typing_extensions import override

from holdfast.core import Observation, Search, Subject, Table
from holdfast.numerics.statistics.statistic import Share, Statistic
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.observations.breaking_radii import BreakingRadii
from holdfast.parts.quantities.nearest import Nearest as StillNearest
from holdfast.runtime.errors import BadValue

WORST = "worst found"
"""The headline where everything that the run met in the ball counts."""


@dataclass(frozen=True)
class NearestNeighbourAccuracy(AttackMeasure):
    """1/|D'| Σ_{x∈D'} 1[ no x'∈D, x'≠x, has d(f(x̂), f(x')) < d(f(x̂), f(x)) ].

    The scores at read-outs are the paper's, for which x̂ is where an attack on *drift* ended. Moving far is not the
    same as coming nearer to another image, so the headline takes for x̂ the worst image that is known: that of the
    smallest change after which this happens, where it lies in the ball (see `BreakingRadius`, whose search it is), and
    everything else that the searches of the run met there.

    Table, one row per attacked image: `found@STEP`, 1 where the clean original is still nearest; and `found`, 1 where
    it is nearest to all that is known.

    Attributes:
        pursue: "event", for the headline above, or "drift", for the paper's number alone.
        passes: of the search for the smallest change, for each image.
    """

    pursue: Literal["event", "drift"] = "event"
    passes: int = 100

    per_image = "found"
    statistic = "share"
    condition = "given this population of images"
    better = "higher"
    in_brief = True
    unit = "share"
    question = "How often is the original still the nearest clean neighbour of an attacked image?"
    how_to_read = (
        "100 % means that every attacked image is still recognised among all images. The scores by step follow one "
        "attack that moves the representation as far as it can; worst found counts an image as lost if any attack of "
        "the audit broke it."
    )
    reference = "Petrov & Kwiatkowska (2022), Eq. 4"

    @property
    @override
    def gloss(self) -> str:
        return "still nearest to itself"

    @property
    @override
    def title(self) -> str:
        return "Nearest-neighbour accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pursue not in ("event", "drift"):
            raise BadValue(f"nearest_neighbour_accuracy: expected pursue to be 'event' or 'drift', got {self.pursue!r}")

    @property
    def event(self) -> BreakingRadii | None:
        """The search for images that are nearer to another one; None where only drift is pursued."""
        if self.pursue == "drift":
            return None
        # The search of `breaking_radius`, which reads no radius, so that
        # an audit with both makes it once
        return BreakingRadii(self.ball.of_usual_radius, Nearest(self.divergence), self.passes)

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the trajectories, and the search for the event."""
        return (*super().observations(), *((self.event,) if self.event else ()))

    @property
    def searches(self) -> tuple[Search, ...]:
        """The search for drift, and that for the event."""
        return (*super().searches, *(self.event.searches if self.event else ()))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the search for drift at its read-outs, that for the event where the worst counts."""
        return self.event.searches if score == WORST and self.event else super().relies_on(score)

    @property
    def column(self) -> str:
        """`found` where the worst counts, else at the last read-out."""
        return "found" if self.pursue == "event" else super().column

    def observe(self, subject: Subject) -> Table:
        """Return whether every attacked image finds its original."""
        quantity = StillNearest(self.divergence)
        clean, attacked = self.reps(subject)
        table = self._ask(quantity, subject, clean, attacked)
        if self.pursue == "event":
            worst = torch.ones(subject.attacked, dtype=torch.float64)
            # In place of points outside the ball stands the clean image, which finds itself
            for points in subject.collect_points(self.ball):
                for reps in points.unbind(1):
                    worst[: len(reps)] = worst[: len(reps)].minimum(quantity.find(reps, clean))
            table["found"] = worst
        return table

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the share at every read-out, and the worst."""
        shares = super().reduce(table)
        if self.pursue == "event":
            shares[WORST] = Share(table["found"], condition=self.condition)
        return shares
