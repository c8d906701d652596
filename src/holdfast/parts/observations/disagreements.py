"""Small changes after which two encoders take an image for different ones, or by which their vectors are parted."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from holdfast.core import (
    AnyDivergence,
    Attack,
    Ball,
    Divergence,
    Encoder,
    Goal,
    Images,
    Passes,
    PerImage,
    Reps,
    Rng,
    Shard,
)
from holdfast.core.pair import Pair
from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.directions import cosine
from holdfast.numerics.geometry.divergence import LinearDivergence
from holdfast.numerics.geometry.spread import rounding
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.shared.asking import LEAST as FEWEST_QUERIES
from holdfast.parts.attacks.shared.asking import LINES, ask
from holdfast.parts.attacks.shared.directions import wide
from holdfast.parts.attacks.shared.gradient import pick
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.parts.attacks.shared.tournament import Sought, most_rivals, passes, tournament
from holdfast.parts.attacks.square import Square
from holdfast.parts.divergences.l2 import L2
from holdfast.parts.observations.breaking_radii import CLEARLY
from holdfast.parts.observations.breaking_radii import LEAST as FEWEST_STEPS
from holdfast.parts.observations.shared.first import OfFirst
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import BadValue

HALVINGS = 10
"""Halvings of the way to where one side answers otherwise, at each of which both are asked."""

LEVEL = 1 / 255
"""A change by one grey level."""


@dataclass(frozen=True)
class Disagreements(OfFirst):
    """How small a change makes the encoders of a `Pair` disagree, as `radius` [M] in pixels; inf where none was found.

    An encoder answers with the image of the population whose clean representation, by itself, is nearest, which for x
    is x. Both disagree where the answers are not the same, each clearly: by more than rounding. The radius is 0 where
    they do as they are, which an inner product can bring about.

    Where both give the same answer to x they can only disagree once one of them has left it. So the smallest change is
    sought after which one leaves its own answer, of each side by itself: `first` and `second` [M], their breaking
    radii. There the other one is asked, too, and where it has left it as well, the way back is halved to where only one
    has. Whatever is found has been seen to make both answer so. A side without a gradient is led by that of the other
    one, and judged by itself; where none has one, both are asked.

    Also `halfway` [M], the smaller of what both searches knew after half of their passes; `noise` [M], the share of
    draws of noise, uniform in the ball of that radius, after which they disagree, NaN where there is none or it is 0;
    `levels` [M], 1 where a change by one grey level at most, of whole ones, was found to make them disagree; and
    `cosine` [M], of both vectors where an attack has parted them most inside `ball`, NaN where they are of other
    lengths.

    Attributes:
        ball: the norm of the radius; inside it vectors are parted.
        divergence: by what images are near.
        steps: passes of each search for each image.
        queries: forward passes instead, where neither side has a gradient.
        draws: of noise.
        attack: what parts vectors.
        asking: the same by queries.
    """

    ball: Ball = Linf(LEVEL)
    divergence: AnyDivergence = L2()
    steps: Count = 50
    queries: Count | None = None
    draws: Count = 8
    attack: Attack = Apgd(20)
    asking: Attack = Square(200)

    candidates: ClassVar[int] = 2
    """Changes that are looked at more closely: one of each side's search."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < FEWEST_STEPS:
            raise BadValue(f"disagreements: expected steps >= {FEWEST_STEPS}, got {self.steps}")
        if self.queries is not None and self.queries < FEWEST_QUERIES:
            raise BadValue(f"disagreements: expected queries >= {FEWEST_QUERIES}, got {self.queries}")

    @property
    @override
    def title(self) -> str:
        spent = f"{self.steps} passes" if self.queries is None else f"{self.queries:,} queries"
        return f"smallest changes on which both disagree, {self.divergence}: {spent} on each side, {self.ball.norm}"

    @property
    def adaptive(self) -> bool:
        """How many rivals there are decides how many images are looked at without a gradient."""
        return True

    @property
    def passes(self) -> Passes:
        """Those of both sides."""
        first, second = self.passes_of_sides((self.queries is None, self.queries is None))
        return first + second

    @override
    def passes_of(self, encoder: Encoder) -> Passes:
        assert isinstance(encoder, Pair)  # nothing else is asked of two encoders
        first, second = self.passes_of_sides((encoder.sides[0].differentiable, encoder.sides[1].differentiable))
        return first + second

    def passes_of_sides(self, gradients: tuple[bool, bool]) -> tuple[Passes, Passes]:
        """Return the passes of each side that one image costs, at most.

        Args:
            gradients: whether each side has one.
        """
        verified = Passes(forward=self.candidates * (HALVINGS + 1) + self.draws + self.candidates + 1)
        # Without a gradient on either side both make the same passes
        if self.queries is not None:
            asked = Passes(forward=self.queries) + self.asking.passes + verified
            return asked, asked
        # Of the search alone, and what a side without a gradient takes of the other one in its own
        own, parting = passes(self.steps, self.steps, self.steps), self.attack.passes
        led = Passes(forward=own.backward, backward=own.backward)
        sides = []
        for has, other in zip(gradients, reversed(gradients), strict=True):
            made = own + parting if has else Passes(forward=own.forward + parting.forward)
            sides.append(made + verified + (Passes() if other else led))
        return sides[0], sides[1]

    @override
    def run(self, shard: Shard) -> dict[str, Tensor]:
        pair, x = shard.encoder, shard.x
        assert isinstance(pair, Pair)  # nothing else is asked of two encoders
        assert shard.clean is not None  # clean representations are always known first
        first, second = pair.sides
        clean, own = shard.clean.to(x.device).double(), shard.positions.to(x.device)
        banks = clean.split(pair.widths, 1)
        with first.exactly(), second.exactly():  # every pass decides something
            sides = [
                _Answers(encoder, bank, own, self.divergence) for encoder, bank in zip(pair.sides, banks, strict=True)
            ]
            before = _disagree(sides, [bank[own] for bank in banks])
            # Each side by itself, then both together on the way to what was found
            found = [self._leave(shard, side, other) for side, other in (sides, sides[::-1])]
            best = _Best(sides, x, self.ball)
            for smallest, _ in found:
                best.halve_the_way_to(smallest.image)
            levels = best.see_levels([smallest.image for smallest, _ in found])
            radius = torch.where(before, 0.0, best.radius)
            left = [torch.minimum(smallest.radius, met) for (smallest, _), met in zip(found, best.left, strict=True)]
            results = {
                "radius": radius,
                "halfway": torch.where(before, 0.0, torch.minimum(found[0][1], found[1][1]).double()),
                "first": left[0],
                "second": left[1],
                "noise": self._noise(best, radius, shard.rng),
                "levels": before | levels,
                "cosine": self._part(shard, pair),
            }
        return {name: values.double().cpu() for name, values in results.items()}

    def _leave(self, shard: Shard, side: "_Answers", other: "_Answers") -> tuple[Smallest, PerImage]:
        """Search for the smallest change after which a side leaves its answer; return the radii of halfway, too."""
        leader = next((each for each in (side, other) if each.encoder.differentiable), None)
        rivals = side.rivals(most_rivals(self.steps) if self.queries is None else LINES)

        def images(number: int) -> Images:
            assert shard.others is not None  # images of a population can always be had
            return shard.others(rivals[:, number].cpu())

        goals = [side.leaving(leader, rivals[:, number]) for number in range(rivals.shape[1])]
        sought = Sought(side.leaving(leader), lambda reps: side.ahead(reps)[0] > CLEARLY, goals, images, len(goals))
        rng = shard.rng.child("disagreements")
        # Rivals compete for the passes; without a gradient, lines to them and squares do
        if self.queries is None:
            return tournament(sought, shard.x, self.ball, self.steps, rng)
        return ask(sought, shard.x, self.ball, self.queries, rng)

    @torch.no_grad()
    def _noise(self, best: "_Best", radius: PerImage, rng: Rng) -> PerImage:
        """Return the share of draws of noise of a size after which both disagree."""
        size, x = torch.where(radius.isfinite(), radius, 0.0).to(best.x), best.x
        hits = torch.zeros_like(radius)
        for draw in range(self.draws):
            noise = 2 * rng.child("noise", draw).uniform(*x.shape[1:]).to(x) - 1
            hits += best.ask((x + wide(size) * noise).clamp(0, 1))[0]
        return (hits / self.draws).masked_fill((radius == 0) | radius.isinf(), torch.nan)

    def _part(self, shard: Shard, pair: Pair) -> PerImage:
        """Return the cosine of both vectors where an attack has parted them most."""
        first, second = pair.sides

        def goal(x: Images) -> tuple[PerImage, Reps]:
            one, two = first(x), second(x)
            return cosine(one, two), torch.cat([one.detach(), two.detach()], 1)

        # Vectors of other lengths have no cosine
        if pair.widths[0] != pair.widths[1]:
            return torch.full((len(shard.x),), torch.nan, dtype=torch.float64)
        attack = self.attack if self.queries is None else self.asking
        return 1 - attack(goal, shard.x, self.ball, shard.rng.child("parting")).values[-1].double()


class _Answers:
    """What one side answers to images, and how clearly: the image of the population that is nearest.

    Args:
        encoder: the side.
        bank: its clean representations of the population, in float64, [N, D].
        own: where the images stand there, [B].
        divergence: by what images are near.
    """

    def __init__(
        self,
        encoder: Encoder,
        bank: Float[Tensor, "population dim"],
        own: Int[Tensor, "batch"],
        divergence: Divergence,
    ):
        self.encoder, self._bank, self._divergence = encoder, bank, divergence
        self._linear = divergence.scores(bank) if isinstance(divergence, LinearDivergence) else None
        # What rounding alone may put representations apart, and with them the difference of two scores
        self._made = rounding(bank, divergence.of_directions and self._linear is None)[own]
        clean = self._score(bank[own])
        self.first = clean.argmax(1)
        self._floor = self._rounding(lambda weights: torch.cdist(weights[self.first], weights))
        # The answer itself, and its twins: none of them is another one
        self._lead = clean - clean.gather(1, self.first[:, None])
        self._level = self._lead >= -self._floor
        # The unit of each image: how far the nearest other one is behind
        behind = -self._lead.masked_fill(self._level, -torch.inf).amax(1)
        self.unit = behind.masked_fill(behind.isinf(), 1.0)

    def _rounding(self, apart: Callable[[Tensor], Tensor]) -> Tensor:
        """Return what rounding makes of the difference of two scores, at each image, [B, N] or [B, 1].

        Args:
            apart: gives how far the weights of the two are apart.
        """
        if self._linear is not None:
            return self._made[:, None] * apart(self._linear.weights)
        return (0.0 if self._divergence.exact else 2.0) * self._made[:, None]

    def _score(self, reps: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch population"]:
        """Return how near each image is, the largest for the nearest one."""
        reps = reps.detach().double()
        if self._linear is not None:
            return self._linear(reps)
        return -pairwise.pairwise(reps.cpu(), self._bank.cpu(), self._divergence).to(reps.device)

    def answer(self, reps: Reps) -> Int[Tensor, "batch"]:
        """Return the nearest image."""
        return self._score(reps).argmax(1)

    def prefers(self, reps: Reps, this: Int[Tensor, "batch"], other: Int[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Return by how much one image is nearer than another one, beyond rounding."""
        scores, these, those = self._score(reps), this[:, None], other[:, None]
        ahead = scores.gather(1, these) - scores.gather(1, those)
        rounded = self._rounding(lambda weights: (weights[these] - weights[those]).norm(dim=2))
        return ((ahead - rounded) / self.unit[:, None]).squeeze(1)

    def ahead(
        self, reps: Reps, rival: Int[Tensor, "batch"] | None = None
    ) -> tuple[Float[Tensor, "batch"], Int[Tensor, "batch"]]:
        """Return by how much another image is nearer than the answer to the clean image, and which it is.

        Args:
            reps: representations of the images, changed.
            rival: the other image of each; None: the one that is farthest ahead.
        """
        scores = self._score(reps)
        lead = (scores - scores.gather(1, self.first[:, None]) - self._floor) / self.unit[:, None]
        lead = lead.masked_fill(self._level, -torch.inf)
        rival = lead.argmax(1) if rival is None else rival
        # Of a rival that is level with the answer nothing is to be gained; values stay finite for searches
        return lead.gather(1, rival[:, None]).squeeze(1).clamp_min(-1 / CLEARLY), rival

    def rivals(self, count: int) -> Int[Tensor, "batch rivals"]:
        """Return the images that are nearest after the answer."""
        lead = self._lead.masked_fill(self._level, -torch.inf)
        return lead.argsort(dim=1, descending=True, stable=True)[:, : min(count, lead.shape[1] - 1)]

    def towards(self, reps: Reps, rival: Int[Tensor, "batch"]) -> PerImage:
        """Return what rises as the answer gives way to a rival, with a gradient: its values are not read."""
        if self._linear is not None:
            normal = self._linear.weights[rival] - self._linear.weights[self.first]
            return (reps.double() * normal).sum(1) / self.unit
        own, other = (self._divergence.pursue(reps.double(), self._bank[at]) for at in (self.first, rival))
        return (own - other) / self.unit

    def leaving(self, leader: "_Answers | None", rival: Int[Tensor, "batch"] | None = None) -> Goal:
        """Return what is above 0 where this side has left its answer; its gradient is that of a leader.

        Args:
            leader: this side, or the other one where this one has no gradient; None: there is none.
            rival: the image for which it is left; None: any.
        """

        def goal(x: Images) -> tuple[PerImage, Reps]:
            reps = self.encoder(x)
            values, other = self.ahead(reps, rival)
            if leader is not None and torch.is_grad_enabled() and x.requires_grad:
                along = leader.towards(reps if leader is self else leader.encoder(x), other)
                # Zero, with the leader's gradient
                values = values + (along - along.detach())
            return values.to(x), reps

        return goal


def _disagree(sides: list[_Answers], reps: list[Reps]) -> Bool[Tensor, "batch"]:
    """Return where each side clearly prefers its own answer to the other's."""
    answers = [side.answer(each) for side, each in zip(sides, reps, strict=True)]
    preferred = [
        side.prefers(each, own, other) > CLEARLY
        for side, each, own, other in zip(sides, reps, answers, answers[::-1], strict=True)
    ]
    return preferred[0] & preferred[1]


class _Best:
    """Of each image the nearest one on which both sides have been seen to disagree.

    Args:
        sides: both.
        x: clean images, [B, C, H, W].
        ball: the norm.

    Attributes:
        radius: how far it is away, [B]; inf where there is none.
        image: it; x where there is none.
        left: of each side how far the nearest image is that was met on which it has left its answer, [B]; else inf.
    """

    def __init__(self, sides: list[_Answers], x: Images, ball: Ball):
        self._sides, self._ball, self.x, self.image = sides, ball, x, x
        self.radius = torch.full((len(x),), torch.inf, dtype=torch.float64, device=x.device)
        self.left = [self.radius, self.radius]

    @torch.no_grad()
    def ask(self, at: Images) -> tuple[Bool[Tensor, "batch"], Bool[Tensor, "batch"]]:
        """Ask both about some images; return on which they disagree, and on which one has left its answer."""
        reps = [side.encoder(at) for side in self._sides]
        size = self._ball.size(at - self.x).double()
        found = _disagree(self._sides, reps)
        # What has been met is kept, whoever asked for it
        nearer = found & (size < self.radius)
        self.radius, self.image = torch.where(nearer, size, self.radius), pick(nearer, at, self.image)
        ahead = [side.ahead(each)[0] > CLEARLY for side, each in zip(self._sides, reps, strict=True)]
        self.left = [torch.where(gone, size.minimum(old), old) for gone, old in zip(ahead, self.left, strict=True)]
        return found, ahead[0] | ahead[1]

    def halve_the_way_to(self, end: Images) -> None:
        """Ask both on the way to an image, nearer to where the first of them leaves its answer with each halving."""
        low, middle = torch.zeros_like(self.radius), torch.ones_like(self.radius)
        high = middle
        for _ in range(HALVINGS + 1):
            _, left = self.ask(self.x + wide(middle.to(self.x)) * (end - self.x))
            low, high = torch.where(left, low, middle), torch.where(left, middle, high)
            middle = (low + high) / 2

    def see_levels(self, ends: list[Images]) -> Bool[Tensor, "batch"]:
        """Return where both disagree after a change of at most one grey level, made of one that was found."""
        found = torch.zeros(len(self.x), dtype=torch.bool, device=self.x.device)
        for end in (self.image, *ends):
            change = end - self.x
            # Whole grey levels, as a picture of 8 bits holds them
            levels = (change / wide(self._ball.size(change).clamp_min(1e-30))).round()
            found |= self.ask((self.x + LEVEL * levels).clamp(0, 1))[0]
        return found
