"""Matching: whether an attack takes an image from its own copies, or makes it one of another image."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Curves, Line
from holdfast.numerics import statistics
from holdfast.numerics.statistics.statistic import Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.measures.shared.matched import CONDITION, Matched, above
from holdfast.parts.objectives.targeted import Targeted
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked, pair_of, partners
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories, worst
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue
from holdfast.runtime.sizes import format_size

STYLES: dict[str, Literal["solid", "dashed"]] = {"evasion": "solid", "collision": "dashed"}
"""How each is drawn against ε."""


@dataclass(frozen=True)
class Matching(Matched):
    """evasion = P[ d(f(x̂), f(x)) >= t ]; collision = P[ d(f(x̂→y), f(y)) < t ].

    t is the smallest distance that more than `rate` of the pairs of different clean images reach: a threshold below
    which a copy detector, a deduplication or a comparison of faces or hashes would call two images the same. It is a
    plug-in estimate from the population, whose error is in the intervals. x̂ is where an untargeted attack on drift
    ended; x̂→y where one towards another image y did, the image's partner. Partners that match before the attack cannot
    be made to, and are left out of the collisions.

    With `radii` both attacks are made in balls of these sizes too, and the report draws evasion and collision against
    ε. An image of a smaller ball lies in the larger ones, so what was found there counts: both curves rise.

    Table, one row per image of the population, NaN where it was not attacked: `drift`, `reached` and `before`, the
    shares of the pairs at or below d(f(x̂), f(x)), d(f(x̂→y), f(y)) and d(f(x), f(y)); `evades` and `collides`, 1 or 0;
    `pair`; `near`, the share of an image's own pairs below the threshold; `threshold`, `allowed` and `pairs`. For each
    radius ε of the curve `drift@ε` and `reached@ε`, of the best that was found up to it.

    Attributes:
        attack: how both attacks search.
        ball: where, in pixels.
        radii: of further balls of the same norm, for the curve; each costs both attacks once more, unless another
            measure makes them.
    """

    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    radii: tuple[float, ...] = field(default=(), kw_only=True)

    better = "lower"
    unit = "share"
    question = "At a copy-detection threshold, how often does an attacked image no longer match its original?"
    how_to_read = (
        "An evasion of 10 % means that one image in ten was changed so that it is no longer recognised as a copy; a "
        "collision of 10 % that one in ten was made to match another image. The note gives the threshold's "
        "false-positive rate among pairs of clean images: a lower rate makes evasion easier and collision harder."
    )
    reference = "Jain et al. (2022) for evasion; Struppek et al. (2022) for collision"

    def __post_init__(self) -> None:
        super().__post_init__()
        different = {format_size(radius) for radius in (*self.radii, self.ball.radius)}
        if len(different) <= len(self.radii) or any(radius <= 0 for radius in self.radii):
            raise BadValue(
                f"matching: radii: expected sizes above 0 in pixels, each once and none of them the ball's own "
                f"{self.ball.radius_text}, got {', '.join(map(format_size, self.radii))}"
            )

    @property
    def balls(self) -> tuple[Ball, ...]:
        """The balls of the curve, the smallest first; the ball alone without further radii."""
        radii = sorted((*self.radii, self.ball.radius))
        # Every ball has its own `radius`, so any kind can be replaced
        return tuple(replace(self.ball, radius=radius) for radius in radii)  # pyright: ignore[reportArgumentType]

    def runs_in(self, ball: Ball) -> tuple[tuple[Attacked, ...], tuple[Attacked, ...]]:
        """Return those in a ball that move representations as far as they can, and those towards the partners."""
        steps = (self.attack.steps,)
        away, towards = (trajectories(self.attack, ball, objective, steps) for objective in (Untargeted(), Targeted()))
        return away, towards

    def observations(self) -> tuple[Observation, ...]:
        """What the threshold is made of, and the trajectories, those of the ball itself first."""
        balls = dict.fromkeys((self.ball, *self.balls))
        return *self.threshold_observations(), *(run for ball in balls for runs in self.runs_in(ball) for run in runs)

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches in each ball, those of the ball itself first; as a whole where they are those of an ensemble."""
        balls = dict.fromkeys((self.ball, *self.balls))
        return tuple(Search(self.attack, ball, objective) for ball in balls for objective in (Untargeted(), Targeted()))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the untargeted search for evasion, the targeted one for collision, in the ball that it is about."""
        at = next((ball for ball in self.balls if score.endswith(_at(ball))), self.ball)
        return tuple(
            search
            for search in self.searches
            if search.ball == at and isinstance(search.objective, Targeted) != score.startswith("evasion")
        )

    @property
    def column(self) -> str:
        """Whether an image evades."""
        return "evades"

    def observe(self, subject: Subject) -> Table:
        """Return whether every attacked image evades, and collides."""
        clean, own = Clean.of(subject), torch.arange(subject.attacked)
        x, partner = clean[own], clean[partners(own)]
        # All distances are held against one threshold, in one pass over the pairs of the population
        pairs, columns = [(x, partner)], ["before"]
        # The ball itself first, and once, whether or not further radii are asked for
        for ball in dict.fromkeys((self.ball, *self.balls)):
            # One read-out each: the last step, of the strongest member
            # where the attack is an ensemble
            (drifted,), (aimed,) = (worst(subject, self.attack, runs).values() for runs in self.runs_in(ball))
            pairs += [(drifted, x), (aimed, partner)]
            columns += [f"drift{_at(ball)}", f"reached{_at(ball)}"]
        quantiles, known = self.compute_quantiles(subject, pairs)
        found = dict(zip(columns, quantiles, strict=True))
        own_drift, own_reached = (found[f"{name}{_at(self.ball)}"] for name in ("drift", "reached"))
        table: Table = {"drift": own_drift, "reached": own_reached, "before": found["before"]}
        # Quantiles decide, not distances: above the level there is no match
        events = {"evades": _evades(table, self.level), "collides": _collides(table, self.level)}
        curve = self._best(found) if self.radii else {}
        return events | table | curve | {"pair": pair_of(torch.arange(len(clean)))} | known

    def _best(self, found: Table) -> Table:
        """Return the largest drift and the smallest distance from the partner up to the radius of each ball."""
        names = [_at(ball) for ball in self.balls]
        # Images of a small ball lie in the larger ones: the best so far, from the smallest ball on
        drifts = torch.stack([found[f"drift{name}"] for name in names]).cummax(0).values
        reaches = torch.stack([found[f"reached{name}"] for name in names]).cummin(0).values
        return {f"drift{name}": column for name, column in zip(names, drifts, strict=True)} | {
            f"reached{name}": column for name, column in zip(names, reaches, strict=True)
        }

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return the shares that collide and that evade: at each radius of the curve, and in the ball."""
        curve: dict[str, Statistic] = {}
        for ball in self.balls if self.radii else ():
            columns = {name: table[f"{name}{_at(ball)}"] for name in ("drift", "reached")}
            curve |= {f"{name}{_at(ball)}": share for name, share in self._both(table | columns).items()}
        return curve | self._both(table)

    def _both(self, table: Table) -> dict[str, Statistic]:
        attacked = ~table["drift"].isnan()
        # Collisions come in pairs, each attacked in both directions; evasions do not
        collision = self.at_rate(
            table,
            lambda rate: _collides(table, rate),
            lambda values: statistics.share(values[attacked], table["pair"][attacked], CONDITION),
        )
        evasion = self.at_rate(
            table,
            lambda rate: _evades(table, rate),
            lambda values: statistics.share(values[attacked], condition=CONDITION),
        )
        return {"collision": collision, "evasion": evasion}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return evasion and collision against ε, where there are further radii; yes or no has no spread."""
        if not self.radii:
            return ()
        radii = tuple(ball.radius for ball in self.balls)
        lines = []
        for name, style in STYLES.items():
            several = [scores[f"{name}{_at(ball)}"] for ball in self.balls]
            value, low, high = (tuple(getattr(score, end) for score in several) for end in ("value", "low", "high"))
            lines.append(Line(radii, value, low, high, style=style))
        return (
            Curves(
                heading="Evasion and collision against ε",
                short="matching",
                how_to_read=(
                    "Solid: the share of attacked images that no longer match their originals. Dashed: the share that "
                    "match another image. What an attack found in a smaller ball counts in the larger ones. Bands are "
                    "95 % intervals at each radius, the error of the threshold included."
                ),
                lines=tuple(lines),
                across=f"ε in pixels, {self.ball.norm}",
                label="images",
                unit="share",
                summary=f"Evasion (solid) and collision (dashed) at {self.set_at} against ε.",
                note=f"Solid: evasion. Dashed: collision. At {self.set_at}.",
            ),
        )


def _at(ball: Ball) -> str:
    """Return how the names of scores and columns about a ball end."""
    return f"@{format_size(ball.radius)}"


def _evades(table: Table, rate: float) -> Float[Tensor, "population"]:
    return above(table["drift"], rate)


def _collides(table: Table, rate: float) -> Float[Tensor, "population"]:
    # Partners that match before the attack are no collisions, and no failures either: NaN
    return (1 - above(table["reached"], rate)).masked_fill(above(table["before"], rate) != 1, torch.nan)
