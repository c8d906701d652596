"""The smallest change that breaks something where each answer is only whether it is broken, not how nearly."""

import torch
from torch import Tensor

from holdfast.core import Ball, Goal, Images, PerImage, Rng
from holdfast.parts.attacks.shared.directions import along, draw, unit, wide
from holdfast.parts.attacks.shared.gradient import evaluate, pick
from holdfast.parts.attacks.shared.smallest import Smallest
from holdfast.parts.attacks.square import draw_signs
from holdfast.parts.threats.shared.window import rectangle

BEGIN, MOST, LEAST = 0.1, 0.5, 1e-3
"""How much smaller than the smallest change found the next is tried, as a share: at first, at most, and at least."""

FASTER, SLOWER = 1.5, 0.85
"""Its factors after a find, and none: they are in balance where about 3 of 10 tries break the image."""

LARGEST, SMALLEST = 0.4, 0.1
"""Sides of the squares at first and at last, as shares of the image's."""

SIDES = (4, 8, 4, 8, 16, 0)
"""Sides of the small pictures that directions are enlarged from, one after the other; 0: none is enlarged."""


def flip_squares(goal: Goal, best: Smallest, ball: Ball, steps: int, half: int, rng: Rng) -> PerImage:
    """Change the signs of squares of the smallest change, a little smaller; keep those that break the image.

    Of a point on the edge of what is broken, half of all squares lead beyond it: then there is room for a smaller
    change. How much smaller is tried follows the share of tries that break the image.

    Args:
        goal: its values are not read.
        best: the smallest broken images so far, and where further ones are noted.
        ball: the norm, in which pixels move independently.
        steps: queries for each image.
        half: the query after which the radii are returned.
        rng: random numbers bound to these images.

    Returns:
        the radii known after half of all queries, [B].

    Source: signs of blocks after Chen & Gu (2020), "RayS"; squares after Andriushchenko et al. (2020).
    """
    x, channels, size = best.x, best.x.shape[1], (best.x.shape[2], best.x.shape[3])
    draws = rng.child("flips").uniform(max(steps, 1), 3 + channels).to(x)
    top, left, frame = ball.frame(x, rng)
    gamma, halfway = torch.full_like(best.radius, BEGIN), best.radius
    for count in range(steps):
        if count == half:
            halfway = best.radius
        # A square somewhere, the smaller the later
        drawn, progress = draws[:, count], count / steps
        side = max(1, round((LARGEST * (1 - progress) + SMALLEST * progress) * min(frame)))
        down, across = ((drawn[:, axis] * (n - side + 1)).long() for axis, n in enumerate(frame))
        square = rectangle(top + down, left + across, (side, side), size, x.device)[:, None]
        target = best.radius * (1 - gamma)
        # One sign for each channel inside it, at the edge of the smaller ball; what was found, outside
        signs = draw_signs(drawn[:, 3:])[:, :, None, None] * wide(target)
        delta = (best.image - x) * wide(1 - gamma)
        candidate = ball.inside(x, torch.where(square, signs, delta), target)
        gamma = _next(gamma, best.see(candidate, _reps(goal, candidate)))
    return halfway


def turn(goal: Goal, best: Smallest, ball: Ball, steps: int, half: int, rng: Rng) -> PerImage:
    """Turn the smallest change by small angles, which shortens it where the edge of what is broken is flat.

    In the plane of the change and a drawn direction at a right angle, the foot of the perpendicular on a ray turned by
    θ is nearer by the factor cos θ: on a flat edge it is broken for one sign of θ, up to the angle of the edge. Both
    signs are tried. Directions are drawn smooth.

    Args and returns as `flip_squares`, for any norm.

    Source: after Maho et al. (2021), "SurFree".
    """
    x, gamma, halfway = best.x, torch.full_like(best.radius, BEGIN), best.radius
    way, failed = torch.zeros_like(x), torch.zeros_like(best.radius, dtype=torch.bool)
    for count in range(steps):
        if count == half:
            halfway = best.radius
        drawn = draw(x, SIDES[count % len(SIDES)], rng.child("turns", count))
        # What failed is tried the other way round, once
        towards, way = unit(best.image - x), pick(failed, -way, drawn)
        way = unit(way - along(way, towards))
        # The foot of the perpendicular lies at cos θ of the length
        cosine, length = wide(1 - gamma), wide((best.image - x).flatten(1).norm(dim=1))
        candidate = (x + length * cosine * (cosine * towards + (1 - cosine.square()).sqrt() * way)).clamp(0, 1)
        # One that is broken and no nearer, as in other norms than the Euclidean one, is no find
        before = best.radius
        nearer = best.see(candidate, _reps(goal, candidate)) & (best.radius < before)
        # A direction has failed once both of its signs have
        gamma = torch.where(nearer | failed, _next(gamma, nearer), gamma)
        failed = ~nearer & ~failed
    return halfway


def _next(gamma: PerImage, broken: Tensor) -> PerImage:
    return torch.where(broken, gamma * FASTER, gamma * SLOWER).clamp(LEAST, MOST)


def _reps(goal: Goal, at: Images) -> Tensor:
    return evaluate(goal, at)[1]
