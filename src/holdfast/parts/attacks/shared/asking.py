"""The smallest change that breaks something, found by asking alone: no gradient, a budget of forward passes."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core import Ball, Goal, Images, PerImage, Reps, Rng
from holdfast.core.threat import image_shape
from holdfast.parts.attacks.shared.deciding import flip_squares, turn
from holdfast.parts.attacks.shared.descent import Descent
from holdfast.parts.attacks.shared.directions import along, draw, unit, wide
from holdfast.parts.attacks.shared.gradient import evaluate, pick
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.parts.attacks.shared.tournament import Sought
from holdfast.parts.attacks.square import draw_signs, find_side
from holdfast.parts.threats.shared.window import rectangle

LINES = 3
"""Straight ways on which the search begins: to likely images that it may be taken for."""

HALVINGS = 6
"""Halvings of each of them, and of the way back at the end."""

LEAST = 2 * LINES * (HALVINGS + 1)
"""Passes below which nothing is left to search with."""

SHARE = 0.3
"""Share of the image's area that a square covers at first."""

GAMMA, FASTER, SLOWER = 0.5, 1.3, 0.5
"""By what share below the smallest change found the next is sought, at first; and factors after a find, and none."""

PATIENCE = 20
"""A find is waited for during one in so many of the proposals."""

SIDES = (4, 8, 16, 4, 8, 0, 4, 8, 16)
"""Sides of the small pictures that directions are enlarged from, one after the other; 0: none is enlarged. Gradients of
networks are smooth in part."""

DIRECTIONS = 1 + len(SIDES)
"""Dimension of the subspaces in which gradients are measured."""

PROBE = 0.004
"""How far a direction is followed for that: this far in every pixel, were it even."""

STRIDE = 0.3
"""First step of the descent, in units of ε."""


def ask(
    sought: Sought, x: Images, ball: Ball, queries: int, rng: Rng, *, only_ranks: bool = False
) -> tuple[Smallest, Float[Tensor, "batch"]]:
    """Search for the smallest change that breaks each image, by forward passes alone.

    It begins on the straight ways to other images, which are halved to the edge of what is broken. Where pixels move
    independently it then asks for squares, as `Square` does, in a ball that lies below the smallest change found by a
    share γ: after each find the ball is drawn below that, and γ grows; where none comes in time, γ is halved. In other
    norms it descends as `tournament` does, along gradients measured in drawn subspaces of `DIRECTIONS` dimensions, of
    which one is the last gradient. Then the way back is halved.

    Where an answer only says which image is nearest, so whether an image is broken, the ways to a blurred and a pale
    copy are halved as well, and from there squares are flipped or the change is turned: `flip_squares`, `turn`.

    Args:
        sought: what is to be broken; its goal is asked for values.
        x: clean images, [B, C, H, W].
        ball: the norm; its own radius is not read.
        queries: forward passes for each image.
        rng: random numbers bound to these images.
        only_ranks: whether no value is read, only what is broken.

    Returns:
        the smallest broken images, and the radii that were known after half of the queries, [B].

    Source: squares after Andriushchenko et al. (2020); measured gradients after Ilyas et al. (2019), "Prior
    convictions"; that the ball shrinks below what is found is Holdfast's own.
    """
    best = Smallest(sought.breaks, x, ball)
    starts = min(LINES, sought.count) if sought.images is not None else 0
    # Without other images: the negative, grey, and noise, one of which breaks most things
    others = (
        [sought.images(number) for number in range(starts)]
        if sought.images is not None and starts
        else [1 - x, torch.full_like(x, 0.5), rng.child("noise").uniform(*x.shape[1:]).to(x)]
    )
    others += _edits(x) if only_ranks else []
    # Each way is halved to its edge; the nearest broken image of all ways goes on
    for other in others:
        way = Smallest(sought.breaks, x, ball)
        way.see(other, evaluate(sought.goal, other)[1])
        way.retreat(sought.goal, HALVINGS)
        if best.reps is None:
            best.take(torch.ones_like(way.radius, dtype=torch.bool), way)
        best.take(way.radius < best.radius, way)
    # What the ways, and the way back at the end, leave of the budget
    left = queries - len(others) * (HALVINGS + 1) - HALVINGS
    by_values, by_ranks = (_ask_for_squares, flip_squares) if ball.is_box else (_descend, turn)
    halfway = (by_ranks if only_ranks else by_values)(sought.goal, best, ball, left, left - queries // 2, rng)
    best.retreat(sought.goal, HALVINGS)
    return best, halfway


def _edits(x: Images) -> list[Images]:
    """Return a blurred and a pale copy, as everyday edits make them."""
    side = min(5, *x.shape[2:]) // 2 * 2 + 1
    blurred = torch.nn.functional.avg_pool2d(x, side, stride=1, padding=side // 2, count_include_pad=False)
    return [blurred, (x + x.mean((1, 2, 3), keepdim=True)) / 2]


def _ask_for_squares(goal: Goal, best: Smallest, ball: Ball, steps: int, half: int, rng: Rng) -> PerImage:
    """Ask for squares in a ball that shrinks below whatever breaks; return the radii known after half of all."""
    x, channels, size = best.x, best.x.shape[1], (best.x.shape[2], best.x.shape[3])
    largest = ball.even(image_shape(x))
    draws = rng.child("squares").uniform(steps, 2 + channels).to(x)
    top, left, frame = ball.frame(x, rng)
    gamma, idle = torch.full_like(best.radius, GAMMA), torch.zeros_like(best.radius)
    # Where no way broke anything the search begins in half of the largest ball
    target = torch.where(best.radius.isinf(), best.radius.new_tensor(largest), best.radius) * (1 - gamma)
    delta, value = _rescale(best.image - x, target, ball), torch.full_like(best.radius, -torch.inf)
    halfway = best.radius
    for count in range(steps):
        if count == half:
            halfway = best.radius
        # A square of one sign per channel, at the edge of the ball of each image
        side, draw = find_side(SHARE, count, steps, *frame), draws[:, count]
        down, across = ((draw[:, axis] * (n - side + 1)).long() for axis, n in enumerate(frame))
        square = rectangle(top + down, left + across, (side, side), size, x.device)[:, None]
        signs = draw_signs(draw[:, 2:])[:, :, None, None]
        candidate = ball.inside(x, torch.where(square, signs * wide(target), delta), target)
        values, reps = evaluate(goal, candidate)
        broken = best.see(candidate, reps)
        # Kept where the goal rises; a pattern whose value is not known at this size gives way to any
        rises = values > value
        delta, value = pick(rises, candidate - x, delta), torch.where(rises, values, value)
        # A find: go below it. None for long: ask for less
        idle = torch.where(broken, 0, idle + 1)
        stuck = idle > max(10, steps // PATIENCE)
        gamma = torch.where(broken, (gamma * FASTER).clamp_max(GAMMA), torch.where(stuck, gamma * SLOWER, gamma))
        anew: Bool[Tensor, "batch"] = broken | (stuck & best.radius.isfinite())
        idle = torch.where(broken | stuck, 0, idle)
        target = torch.where(anew, best.radius * (1 - gamma), target)
        delta = pick(anew, _rescale(pick(broken, best.image - x, delta), target, ball), delta)
        value = torch.where(anew, -torch.inf, value)
    return halfway


def _descend(goal: Goal, best: Smallest, ball: Ball, steps: int, half: int, rng: Rng) -> PerImage:
    """Descend along gradients that are measured in drawn subspaces; return the radii known after half of all."""
    x, last, made = best.x, torch.zeros_like(best.x), 0
    far = PROBE * math.sqrt(math.prod(x.shape[1:]))
    planned = max(1, steps // (DIRECTIONS + 1))

    def measure(goal: Goal, at: Images) -> tuple[PerImage, Reps, Images]:
        nonlocal last
        value, reps = evaluate(goal, at)
        gradient = torch.zeros_like(at)
        for way in _directions(last, rng.child("directions", made)):
            moved = (at + far * way).clamp(0, 1)
            there, there_reps = evaluate(goal, moved)
            best.see(moved, there_reps)  # what is asked on the way counts, too
            gradient += wide((there - value) / far) * way
        # In the next subspace this is the first direction
        last = gradient
        return value, reps, gradient

    # From the edge that the ways found; ε begins there, and shrinks
    start = pick(best.radius.isinf(), x, best.image)
    descent = Descent(goal, ball, best, start, best.radius, STRIDE, ascent=measure)
    halfway = best.radius
    for made in range(planned):
        if made == half * planned // max(1, steps):
            halfway = best.radius
        descent.step(made / planned)
    return halfway


def _directions(last: Images, rng: Rng) -> list[Images]:
    """Return orthogonal directions of length 1, the last gradient first: what it found is likely to hold still."""
    # Where there is no last gradient, a direction is drawn in its place
    flat = last.flatten(1).abs().amax(1) == 0
    ways = [pick(flat, draw(last, 0, rng.child("first")), last)]
    ways += [draw(last, side, rng.child(number)) for number, side in enumerate(SIDES)]
    for number, way in enumerate(ways):
        for before in ways[:number]:  # Gram–Schmidt
            way = way - along(way, before)
        ways[number] = unit(way)
    return ways


def _rescale(delta: Images, size: PerImage, ball: Ball) -> Images:
    """Return changes stretched to a size."""
    return delta * wide(size / ball.size(delta).clamp_min(1e-30))
