"""Matching: whether an attack takes an image from its own copies, or makes it one of another image."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart
from holdfast.numerics import statistics
from holdfast.numerics.statistics.thresholds import AtRate
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.measures.shared.matched import CONDITION, Matched, above
from holdfast.parts.measures.shared.worst import trajectories, worst
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked, pair_of, partners
from holdfast.parts.observations.clean import Clean
from holdfast.parts.threats.linf import Linf


@dataclass(frozen=True)
class Matching(Matched):
    """evasion = P[ d(f(x̂), f(x)) >= t ]; collision = P[ d(f(x̂→y), f(y)) < t ].

    t is the smallest distance that more than `rate` of the pairs of different clean images reach: a threshold below
    which a copy detector, a deduplication or a comparison of faces or hashes would call two images the same. It is a
    plug-in estimate from the population, whose error is in the intervals. x̂ is where an untargeted attack on drift
    ended; x̂→y where one towards another image y did, the image's partner. Partners that match before the attack cannot
    be made to, and are left out of the collisions.

    Table, one row per image of the population, NaN where it was not attacked: `drift`, `reached` and `before`, the
    shares of the pairs at or below d(f(x̂), f(x)), d(f(x̂→y), f(y)) and d(f(x), f(y)); `evades` and `collides`, 1 or 0;
    `pair`; `near`, the share of an image's own pairs below the threshold; `threshold`, `allowed` and `pairs`.

    Attributes:
        attack: how both attacks search.
        ball: where, in pixels.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)

    better = "lower"
    unit = "share"
    question = "At a copy-detection threshold, how often does an attacked image no longer match its original?"
    how_to_read = (
        "An evasion of 10 % means that one image in ten was changed so that it is no longer recognised as a copy; a "
        "collision of 10 % that one in ten was made to match another image. The note gives the threshold's "
        "false-positive rate among pairs of clean images: a lower rate makes evasion easier and collision harder."
    )
    reference = (
        "Jain, Crețu & de Montjoye (2022), “Adversarial detection avoidance attacks”, arXiv 2106.09820, for evasion; "
        "Struppek et al. (2022), “Learning to break deep perceptual hashing”, arXiv 2111.06628, for collision"
    )

    @property
    def away(self) -> tuple[Attacked, ...]:
        """The trajectories that move representations as far as they can."""
        return trajectories(self.attack, self.ball, Untargeted(), (self.attack.steps,))

    @property
    def towards(self) -> tuple[Attacked, ...]:
        """The trajectories towards the partners."""
        return trajectories(self.attack, self.ball, Targeted(), (self.attack.steps,))

    def observations(self) -> tuple[Observation, ...]:
        """What the threshold is made of, and the trajectories."""
        return *self.compared(), *self.away, *self.towards

    @property
    def searches(self) -> tuple[Search, ...]:
        """Both searches, as a whole where they are those of an ensemble."""
        return tuple(Search(self.attack, self.ball, objective) for objective in (Untargeted(), Targeted()))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the untargeted search for evasion, the targeted one for collision."""
        return self.searches[:1] if score == "evasion" else self.searches[1:]

    @property
    def column(self) -> str:
        """Whether an image evades."""
        return "evades"

    def observe(self, subject: Subject) -> Table:
        """Return whether every attacked image evades, and collides."""
        clean, own = subject.read(Clean())["reps"], torch.arange(subject.attacked)
        (drifted,), (aimed,) = (worst(subject, self.attack, runs).values() for runs in (self.away, self.towards))
        x, partner = clean[own], clean[partners(own)]
        quantiles, known = self.placed(subject, [(drifted, x), (aimed, partner), (x, partner)])
        table: Table = dict(zip(("drift", "reached", "before"), quantiles, strict=True))
        events = {"evades": _evades(table, self.rate), "collides": _collides(table, self.rate)}
        return events | table | {"pair": pair_of(torch.arange(len(clean)))} | known

    def score(self, table: Table) -> dict[str, Score]:
        """Return the shares that collide and that evade."""
        attacked = ~table["drift"].isnan()
        collision = self.at_rate(table, lambda rate: _collides(table, rate)).score(
            lambda values: statistics.share(values[attacked], table["pair"][attacked], CONDITION)
        )
        evasion = self._evasion(table).score(lambda values: statistics.share(values[attacked], condition=CONDITION))
        return {"collision": self.noted(collision, table), "evasion": self.noted(evasion, table)}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return none: yes or no has no spread."""
        return ()

    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each image's influence on the evasion."""
        return self._evasion(table).influence()

    def _evasion(self, table: Table) -> AtRate:
        return self.at_rate(table, lambda rate: _evades(table, rate))


def _evades(table: Table, rate: float) -> Float[Tensor, "population"]:
    return above(table["drift"], rate)


def _collides(table: Table, rate: float) -> Float[Tensor, "population"]:
    return (1 - above(table["reached"], rate)).masked_fill(above(table["before"], rate) != 1, torch.nan)
