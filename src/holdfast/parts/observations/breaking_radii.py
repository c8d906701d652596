"""Breaking radii: the smallest change found after which an image fails."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Album, Ball, Failure, Goal, Images, Margin, Passes, PerImage, Reps, Rivals, Search, Shard
from holdfast.numerics.geometry.divergence import DistanceMargin
from holdfast.parts.attacks.minimum_norm import MinimumNorm
from holdfast.parts.attacks.pgd import Pgd
from holdfast.parts.attacks.shared.asking import LEAST as FEWEST_QUERIES
from holdfast.parts.attacks.shared.asking import LINES, ask
from holdfast.parts.attacks.shared.gradient import pick
from holdfast.parts.attacks.shared.tournament import Sought, most_rivals, passes, tournament
from holdfast.parts.attacks.square import Square
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.observations.shared.first import OfAnyRadius, OfFirst
from holdfast.parts.observations.shared.margins import clean_of
from holdfast.parts.observations.shared.smallest_changes import pack_first_changes, smallest_changes
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue, Missing

CLEARLY = 1e-4
"""Value of the failure above which an image counts as broken: -1 without a disturbance, and rounding is far smaller."""

LEAST = 10
"""Passes below which the rounds of the search have no steps."""


@dataclass(frozen=True)
class BreakingRadii(OfAnyRadius, OfFirst):
    """min ||x' - x|| over the images x' that fail, as far as a search found: `radius` [M] in pixels; inf where none.

    Also `halfway` [M], the radius known after half of the passes; `reps` [M, D], the representation of the broken
    image, NaN where there is none; `rival` [M], the position of the image that it is taken for, -1 where there is none;
    and of the first images of the population the changes themselves, see `pack_first_changes`. Every radius belongs to
    a real image that fails, so the true radius is at most this; it is 0 where an image fails as it is.

    Attributes:
        ball: the norm; its radius is not read.
        failure: what counts as broken.
        steps: passes for each image, each a forward and a backward one; see `tournament`.
        queries: forward passes for each image instead, without a gradient; see `ask`.
        only_ranks: whether queries say no more than which image is nearest.

    Source: descents after Pintor et al. (2021); that many begin and the best go on is Holdfast's own.
    """

    ball: Ball = Linf()
    failure: Failure = Nearest()
    steps: int = 100
    queries: Count | None = None
    only_ranks: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < LEAST:
            raise BadValue(f"breaking_radii: expected steps >= {LEAST}, got {self.steps}")
        if self.queries is not None and self.queries < FEWEST_QUERIES:
            raise BadValue(f"breaking_radii: expected queries >= {FEWEST_QUERIES}, got {self.queries}")
        if self.only_ranks and self.queries is None:
            raise Missing("breaking_radii: only_ranks=true is a search by queries; give queries=500, say")

    @classmethod
    def of(cls, search: Search, first: int) -> "BreakingRadii":
        """Return what makes a search for the smallest change, of the first images."""
        assert isinstance(search.objective, Failure)  # so it is of every such search
        steps, asks = search.attack.steps, not search.attack.passes.backward
        return (
            cls(search.ball, search.objective, queries=steps, first=first)
            if asks
            else cls(search.ball, search.objective, steps, first=first)
        )

    @property
    @override
    def title(self) -> str:
        spent = (
            f"{self.steps} passes"
            if self.queries is None
            else f"{self.queries:,} queries{' of ranks' * self.only_ranks}"
        )
        return f"smallest changes, {self.failure.title}: {spent}, {self.ball.norm}"

    @property
    @override
    def searches(self) -> tuple[Search, ...]:
        # The attack that does most alike
        attack = MinimumNorm(self.steps) if self.queries is None else Square(self.queries)
        return (Search(attack, self.ball.of_usual_radius, self.failure, smallest=True),)

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return the representations of the broken images that lie in the ball."""
        if ball.of_usual_radius != self.ball.of_usual_radius:
            return None
        return results["reps"].masked_fill((results["radius"] > ball.radius)[:, None], torch.nan)[:, None]

    @property
    def passes(self) -> Passes:
        """Those of the search; a few less in small populations, and where rivals have no images."""
        if self.queries is not None:
            return Passes(forward=self.queries) + Square().choosing(self.ball)
        rivals, images = (0, 1) if self.failure.of_one_way else (self.steps, self.steps)
        return passes(self.steps, rivals, images) + Pgd().choosing(self.ball)

    @property
    def adaptive(self) -> bool:
        """How many rivals there are decides how many images are looked at without a gradient."""
        return True

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        event, rows = self.failure.bind(shard), torch.arange(len(shard.x))
        last: tuple[Reps, PerImage] | None = None
        # No more rivals than the first round of the search can pursue
        rivals = self.failure.rivals(shard, most_rivals(self.steps) if self.queries is None else LINES)

        def value(reps: Reps) -> PerImage:
            # Events take several draws of each image; here there is one, [B, 1, D]
            return event(reps[:, None].double(), rows).squeeze(1)

        def goal(x: Images) -> tuple[PerImage, Reps]:
            nonlocal last
            reps = shard.encoder(x)
            values = value(reps)
            # Kept for `breaks`, which the search asks about the same representations next
            last = reps.detach(), values.detach()
            return values.to(x), reps

        def breaks(reps: Reps) -> Bool[Tensor, "batch"]:
            # mostly those whose values the goal has just returned: they are compared with the population once
            return (last[1] if last is not None and _same(last[0], reps) else value(reps)) > CLEARLY

        sought = Sought(goal, breaks, *_pursuable(shard, rivals, self.failure))
        with shard.encoder.exactly():  # every pass decides whether an image breaks
            # Of a ball that is a union, such as a patch anywhere, the place of each
            # image is chosen before the search
            trial = Pgd() if self.queries is None else Square()
            (ball,) = trial.at_places(goal, shard.x, self.ball, shard.rng)
            if self.queries is None:
                smallest, halfway = tournament(sought, shard.x, ball, self.steps, shard.rng)
            else:
                smallest, halfway = ask(sought, shard.x, ball, self.queries, shard.rng, only_ranks=self.only_ranks)
        assert smallest.reps is not None  # the search has looked
        # what fails as it is need not move
        clean = clean_of(shard)[shard.positions]
        whole = value(clean) <= CLEARLY
        radius = torch.where(whole, smallest.radius.double(), 0.0).cpu()
        reps = pick(whole, smallest.reps, clean.to(smallest.reps)).float()
        taken_for = self.failure.identify(shard, reps)
        # What holds is taken for nothing but itself
        rival = torch.full((len(radius),), -1) if taken_for is None else taken_for.masked_fill(radius.isinf(), -1)
        return {
            "radius": radius,
            "halfway": torch.where(whole, halfway.double(), 0.0).cpu(),
            "reps": reps.cpu(),
            "rival": rival,
            **pack_first_changes(pick(whole, smallest.image - shard.x, torch.zeros_like(shard.x)), shard.positions),
        }

    @property
    def shows(self) -> Literal["", "changes"]:
        """The smallest changes."""
        return "changes" if self.failure.has_pictures else ""

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> list[dict[str, Any]]:
        """Leave pictures of some smallest changes, from the smallest to the largest."""

        def size(radius: float) -> dict[str, Any]:
            return {"norm": self.ball.norm, "levels": 255 * radius if self.ball.is_box else None}

        return smallest_changes(results, album, size)


def _same(reps: Reps, others: Reps) -> bool:
    """Whether representations are the very same numbers in memory, which nobody changes there."""
    return reps.shape == others.shape and reps.data_ptr() == others.data_ptr()


def _pursuable(shard: Shard, rivals: Rivals | None, failure: Failure) -> tuple[list[Goal], Any, int]:
    """Return the goals of all rivals, what gives their images, and how many images there are."""
    others = shard.others
    if rivals is None:
        # One goal alone, and an image beyond it, where the failure knows one
        if others is None or not failure.of_one_way:
            return [], None, 0
        beyond = failure.fails_at(shard)
        return [], lambda number: others(beyond), 1
    count, positions = rivals.count, rivals.positions
    goals = [_goal(shard, rivals.margins, number) for number in range(count)]
    if positions is None or others is None:
        return goals, None, 0
    # The rival's own image is broken for certain, so searches may begin at it and come back
    return goals, lambda number: others(positions[:, number]), count


def _goal(shard: Shard, margins: Margin | DistanceMargin, number: int) -> Goal:
    """Return the goal -m_j(x') of each image's j-th rival: above zero where the image is taken for it."""
    margin = margins.row(number)

    def goal(x: Images) -> tuple[PerImage, Reps]:
        reps = shard.encoder(x)
        return -margin(reps), reps

    return goal
