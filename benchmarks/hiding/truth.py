"""The smallest changes that an attack finds which knows how an encoder hides.

It follows the gradients of surrogates, which have the same values; it begins at images that break the plain network;
and what it says has been seen: every image has been given to the encoder itself. So the true radius of an image is at
most what it finds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.hiding.family import Family
from benchmarks.hiding.masks import surrogates
from holdfast.core import Attack, HoldfastError, Margin, Rng, Shard
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.shared.tournament import Sought, tournament
from holdfast.parts.attacks.square import Square
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.threats.linf import Linf

CLEARLY = 1e-4
"""Value of the failure above which an image counts as broken; -1 is that of a clean one."""

RIVALS, PURSUED = 40, 6
"""Nearest other images: those that are kept, and those that rounds go toward one by one."""

HALVINGS = 12
LEAST = 40
AWAY = (1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0, 5.0)
"""How much farther images are taken that break the plain network."""

Network = Callable[[Tensor], Tensor]


class Problem:
    """The images of a family as a network represents them, and the smallest changes that are known to break them.

    Args:
        network: the encoder that counts.
        family: of the images.
    """

    def __init__(self, network: nn.Module, family: Family):
        self.x = family.population[: family.attacked]
        self.network, self.family = network.eval(), family
        with torch.no_grad():
            clean = network(family.population).float()
        ids = tuple(map(str, range(len(self.x))))
        shard = Shard(family.encoder_of(nn.Identity()), self.x, torch.arange(len(self.x)), Rng(0, ids=ids), clean)
        self.failure = Nearest()
        self.event, self.rows = self.failure.bind(shard), torch.arange(len(self.x))
        self.rng = shard.rng
        rivals = self.failure.rivals(shard, RIVALS)
        assert isinstance(rivals.margins, Margin)  # of a linear divergence
        self.margins, self.rivals = rivals.margins, rivals.positions
        self.best = self.x.clone()
        self.radius = torch.full((len(self.x),), math.inf, dtype=torch.float64)

    def value(self, reps: Tensor) -> Tensor:
        """Return the value of the failure, above 0 where an image is taken for another one."""
        return self.event(reps[:, None].double(), self.rows).squeeze(1)

    def toward(self, reps: Tensor, rival: int) -> Tensor:
        """Return how much nearer representations are to one rival than to their own image."""
        weights, bias = self.margins.weights[:, rival], self.margins.bias[:, rival]
        return -((reps.double() * weights).sum(1) + bias) / weights.norm(dim=1).clamp_min(1e-300)

    @torch.no_grad()
    def see(self, images: Tensor) -> None:
        """Give images to the encoder, and keep those that break and are nearer than what is known."""
        self.note(images, self.value(self.network(images).float()))

    @torch.no_grad()
    def note(self, images: Tensor, values: Tensor) -> None:
        """Keep those that break, of which the values are known."""
        size = (images.double() - self.x.double()).abs().flatten(1).amax(1)
        better = (values > CLEARLY) & (size < self.radius)
        self.best[better], self.radius[better] = images[better], size[better]

    def retreat(self) -> None:
        """Halve the way back, with the encoder itself; what it does not confirm is forgotten."""
        at, self.radius = self.best.clone(), torch.full_like(self.radius, math.inf)
        self.see(at)
        low, high = torch.zeros_like(self.radius), torch.ones_like(self.radius)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            images = self.x + middle.to(at)[:, None, None, None] * (at - self.x)
            with torch.no_grad():
                values = self.value(self.network(images).float())
            self.note(images, values)
            broken = values > CLEARLY
            high, low = torch.where(broken, middle, high), torch.where(broken, low, middle)


def smallest_changes(network: nn.Module, family: Family, transferred: Sequence[Tensor] = ()) -> Problem:
    """Return the problem with what was found.

    Args:
        network: the encoder; surrogates are made of it.
        family: of the images.
        transferred: images that break other networks.
    """
    problem = Problem(network, family)
    x, honest = problem.x, list(surrogates(network))
    # images that others are broken by, and the rivals themselves
    for image in transferred:
        for times in AWAY:
            problem.see((x + times * (image - x)).clamp(0, 1))
    if problem.rivals is not None:
        for rival in range(min(PURSUED, problem.rivals.shape[1])):
            _keeping_best(problem, family.population[problem.rivals[:, rival]])
    problem.retreat()
    # along gradients: the audit's own search, which is told better ones, and rounds
    for surrogate in honest:
        _pursue(problem, surrogate.eval(), family.pursuit // len(honest))
        problem.retreat()
    random = torch.Generator().manual_seed(0)
    for number in range(family.rounds):
        surrogate = honest[number % len(honest)].eval()
        turn = number // len(honest)
        rival = None if turn % 2 == 0 else (turn // 2) % PURSUED
        _descend(problem, surrogate, rival, family.steps, random, some=number % 3 == 2)
        problem.retreat()
    for surrogate in honest:
        attack_in_balls(problem, surrogate, Apgd(family.steps))
        problem.retreat()
    # without gradients
    attack_in_balls(problem, network, Square(4 * family.steps))
    problem.retreat()
    for _ in range(family.climbs):
        _climb(problem, family.climbing, family.candidates, random)
        problem.retreat()
    return problem


def _keeping_best(problem: Problem, images: Tensor) -> None:
    best, radius = problem.best.clone(), problem.radius.clone()
    problem.best, problem.radius = images.clone(), torch.zeros_like(radius)
    problem.retreat()
    worse = ~(problem.radius < radius)
    problem.best[worse], problem.radius[worse] = best[worse], radius[worse]


def _pursue(problem: Problem, surrogate: nn.Module, steps: int) -> None:
    def goal(x: Tensor, rival: int | None = None) -> tuple[Tensor, Tensor]:
        reps = surrogate(x)
        value = problem.value(reps) if rival is None else problem.toward(reps, rival)
        return value.to(x), reps

    positions = problem.rivals
    assert positions is not None  # of the failure `nearest` they are images
    count = positions.shape[1]
    sought = Sought(
        goal,
        lambda reps: problem.value(reps) > CLEARLY,
        [partial(goal, rival=rival) for rival in range(count)],
        lambda rival: problem.family.population[positions[:, rival]],
        count,
    )
    try:
        found, _ = tournament(sought, problem.x, Linf(), max(LEAST, steps), problem.rng)
    except HoldfastError:  # a gradient that is not finite
        return
    problem.see(found.image)


def _descend(
    problem: Problem, surrogate: nn.Module, rival: int | None, steps: int, random: torch.Generator, some: bool = False
) -> None:
    """Go up with momentum in balls that shrink as soon as something in them breaks.

    Balls are a little smaller than what is known, in some rounds ε where that is not enough.

    Args:
        problem: what to break.
        surrogate: gives the gradient.
        rival: toward which image; None: whichever is nearest.
        steps: how many.
        random: draws the starts.
        some: whether a step moves half of the pixels alone: of saturated ones, all would move at once.
    """
    x = problem.x
    radius = torch.where(problem.radius.isfinite(), 0.95 * problem.radius, 0.5)
    if rival is not None and rival % 2:
        radius = torch.where(problem.radius > problem.family.eps, problem.family.eps, radius)
    known = problem.radius.isfinite()[:, None, None, None]
    start = x + radius.to(x)[:, None, None, None] * (2 * torch.rand(x.shape, generator=random) - 1)
    at = _around(
        x, torch.where(known & (torch.rand(len(x), 1, 1, 1, generator=random) < 0.5), problem.best, start), radius
    )
    momentum = torch.zeros_like(x)
    for step in range(steps):
        at = at.detach().requires_grad_()
        reps = surrogate(at)
        values = problem.value(reps)
        goal = values if rival is None else problem.toward(reps, rival)
        (gradient,) = torch.autograd.grad(goal.sum(), at) if goal.requires_grad else (torch.zeros_like(at),)
        problem.note(at.detach(), values.detach())
        radius = torch.minimum(radius, torch.where(problem.radius > radius, radius, 0.97 * problem.radius))
        gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        largest = gradient.abs().flatten(1).amax(1)[:, None, None, None].clamp_min(1e-38)
        gradient = gradient / largest  # before the mean: squares and sums of tiny numbers are 0
        gradient = gradient / gradient.abs().flatten(1).mean(1)[:, None, None, None].clamp_min(1e-12)
        momentum = 0.75 * momentum + gradient
        length = radius.to(x)[:, None, None, None] * (0.02 + 0.48 * (1 + math.cos(math.pi * step / steps)) / 2)
        if some:
            length = length * (torch.rand(x.shape, generator=random) < 0.5)
        at = _around(x, at.detach() + length * momentum.sign(), radius)
    with torch.no_grad():
        problem.note(at, problem.value(surrogate(at)))


@torch.no_grad()
def _climb(problem: Problem, steps: int, candidates: int, random: torch.Generator) -> None:
    """Try other values of some pixels, and keep what is nearest to breaking: what is flat is searched step by step.

    Pixels are at one of the ends of what they may be, or as they were.
    """
    x, images = problem.x, len(problem.x)
    radius = _aims(problem)
    reach = radius.to(x)[:, None, None, None]
    at = _around(x, problem.best, radius)
    value = problem.value(problem.network(at).float())
    for _ in range(steps):
        tried = at.repeat(candidates, 1, 1, 1)
        ends = (torch.randint(-1, 2, (len(tried), 1, 1, 1), generator=random) * reach.repeat(candidates, 1, 1, 1)).to(x)
        ends = (x.repeat(candidates, 1, 1, 1) + ends).clamp(0, 1)
        tried = torch.where(_rectangles(tried, random), ends, tried)
        reps = problem.network(tried).float().view(candidates, images, -1)
        values = torch.stack([problem.value(each) for each in reps])
        first = values.argmax(0)
        found, best = values.amax(0), tried.view(candidates, *x.shape)[first, torch.arange(images)]
        better = found >= value
        at, value = torch.where(better[:, None, None, None], best, at), torch.where(better, found, value)
        problem.note(at, value)


def _rectangles(x: Tensor, random: torch.Generator) -> Tensor:
    """Return a small random rectangle of each image, in one of its channels or all."""
    count, channels, height, width = x.shape
    largest = max(2, height // 8)

    def along(length: int) -> Tensor:
        size = torch.randint(1, largest + 1, (count, 1), generator=random)
        begin = torch.randint(0, length, (count, 1), generator=random)
        places = torch.arange(length)
        return (places >= begin) & (places < begin + size)

    channel = torch.randint(0, channels + 1, (count, 1), generator=random)
    chosen = (torch.arange(channels) == channel) | (channel == channels)
    return chosen[:, :, None, None] & along(height)[:, None, :, None] & along(width)[:, None, None, :]


def _aims(problem: Problem) -> Tensor:
    """Return ε where that is not enough yet, else a little less than what is."""
    radius = torch.where(problem.radius > problem.family.eps, problem.family.eps, 0.97 * problem.radius)
    return radius.nan_to_num(0.0).clamp_min(1e-9)


def attack_in_balls(problem: Problem, surrogate: nn.Module, attack: Attack) -> None:
    """Attack each image in the ball of its own radius: all at once in the largest, the way from x made shorter."""
    x = problem.x
    radius = _aims(problem)
    share = (radius / radius.max()).to(x)[:, None, None, None]

    def goal(z: Tensor) -> tuple[Tensor, Tensor]:
        at = x + share * (z - x)
        reps = surrogate(at)
        values = problem.value(reps)
        problem.note(at.detach(), values.detach())
        return values.to(x), reps

    attack(goal, x, replace(Linf(), radius=float(radius.max())), problem.rng)


def _around(x: Tensor, moved: Tensor, radius: Tensor) -> Tensor:
    reach = radius.to(x)[:, None, None, None]
    return torch.minimum(torch.maximum(moved, x - reach), x + reach).clamp(0, 1)
