"""The smallest change that breaks something, by many short searches of which the best go on: successive halving."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Ball, Goal, Images, Passes, Rng
from holdfast.core.threat import image_shape
from holdfast.parts.attacks.shared.descent import Descent
from holdfast.parts.attacks.shared.gradient import evaluate, pick
from holdfast.parts.attacks.shared.smallest import Breaks, Smallest
from holdfast.runtime.waiting import defer_expectations

OPENING = 4
"""Steps of every search in the first round."""

SHARES = (0.45, 0.2, 0.2)
"""Shares of the budget that go to the first three rounds; the rest goes to the last one."""

LOOKS = 4
"""Halvings of the straight way to another image, before a search that begins at its end."""

HALVINGS = 8
"""Halvings of the way from the image to the smallest broken one at the end."""

RETREATING = 40
"""Passes from which on a search without rivals halves its way back between rounds."""

STRIDES = (0.7, 0.3)
"""First steps, in units of ε: of searches that begin at the image, and of those that begin at a broken one."""

ASIDE = 1e-4
"""How far from the image searches begin, as a share of the largest change: some goals have no gradient at x."""

FARTHER = 0.03
"""The same for further searches for one goal, which would else go one way."""


@dataclass(frozen=True)
class Sought:
    """What is to be broken, for a batch of images.

    Attributes:
        goal: what to maximise, zero where things break.
        breaks: what counts as broken; the last word.
        rivals: goals that are above zero only where things break in one of several ways, such as "taken for its second
            nearest image"; likely ways first.
        images: gives broken images, [B, C, H, W], such as the second nearest one; None: there are none.
        count: how many images that gives.
    """

    goal: Goal
    breaks: Breaks
    rivals: Sequence[Goal] = ()
    images: Callable[[int], Images] | None = None
    count: int = 0


@dataclass(frozen=True)
class Round:
    """Some searches of equal length."""

    searches: int
    steps: int


def rounds(steps: int, most: int) -> tuple[Round, ...]:
    """Return how a budget is spent: about n, n/4, n/16 searches, and one, for n searches of a few steps at first.

    Args:
        steps: gradient steps in all.
        most: how many searches there can be.

    Example:
        >>> [(r.searches, r.steps) for r in rounds(100, most=50)]
        [(11, 4), (3, 6), (2, 10), (1, 18)]
    """
    first = min(most, most_rivals(steps))
    counts = (first, max(min(3, first), first // 4), max(min(2, first), first // 16))
    planned, left = [], steps
    for count, share in zip(counts, SHARES, strict=True):
        # A share that is too small for one step of each search is left to the last round
        each = int(share * steps / count)
        if each:
            planned.append(Round(count, each))
            left -= count * each
    return (*planned, Round(1, left))


def edges(searches: int, images: int) -> int:
    """Return how many of the first searches begin between x and another image: about one in five."""
    return min(images, max(1, searches // 5)) if searches > 1 else 0


def plan_rounds(steps: int, rivals: int, images: int) -> tuple[Round, ...]:
    """Return the rounds that a budget of passes leaves: looks without a gradient are half a pass."""
    most = searches_of(rivals, images)
    looks = edges(most_rivals(steps), images) * (LOOKS + 1) + HALVINGS
    # Rounded up, so that the budget is kept
    left = steps - -(-looks // 2)
    # Ways back leave shorter rounds, of as many searches or fewer
    back = count_retreats(rounds(max(1, left), most), rivals, steps) * LOOKS
    return rounds(max(1, left - -(-back // 2)), most)


def count_retreats(planned: Sequence[Round], rivals: int, steps: int) -> int:
    """Return how many searches begin with a way back: those of later rounds, where no rivals say where to go.

    A goal without rivals may be flat at x, such as a distance from x itself. The first step then leads far beyond what
    breaks, and ε alone would take too many steps to come back.
    """
    return 0 if rivals or steps < RETREATING else sum(part.searches for part in planned[1:])


def passes(steps: int, rivals: int, images: int) -> Passes:
    """Encoder passes that `tournament` costs for one image: (forward + backward) / 2 is at most `steps`, about."""
    planned = plan_rounds(steps, rivals, images)
    gradients = sum(r.searches * r.steps for r in planned)
    begins = edges(planned[0].searches, images) * (LOOKS + 1)
    back = count_retreats(planned, rivals, steps) * LOOKS
    return Passes(forward=gradients + begins + back + HALVINGS, backward=gradients)


def searches_of(rivals: int, images: int) -> int:
    """Return how many searches there can be: of the goal itself, of each rival or restarts, and from each image."""
    return (1 + rivals if rivals else 4) + images


def most_rivals(steps: int) -> int:
    """Return how many rivals the first round can pursue at most."""
    return max(1, int(SHARES[0] * steps / OPENING))


@defer_expectations()
def tournament(sought: Sought, x: Images, ball: Ball, steps: int, rng: Rng) -> tuple[Smallest, Float[Tensor, "batch"]]:
    """Search for the smallest change that breaks each image, with a budget of passes.

    How far a search gets depends on where it begins and what it aims at far more than on its length, and after a few
    steps that shows. So the first round holds many searches of a few steps: for the goal itself and for each of its
    rivals, from the image, and some from the end of the straight way to another image, which needs no gradient. The
    nearest broken images go on, fewer and longer, always for the goal itself: successive halving. Then the way back is
    halved.

    Args:
        sought: what is to be broken.
        x: clean images, [B, C, H, W].
        ball: the norm; its own radius is not read.
        steps: passes for each image, each a forward and a backward one.
        rng: random numbers bound to these images.

    Returns:
        the smallest broken images, and the radii that were known after half of the steps, [B].

    Source: descents after Pintor et al. (2021); successive halving of Jamieson & Talwalkar (2016), "Non-stochastic best
    arm identification and hyperparameter optimization", here image by image.
    """
    planned = plan_rounds(steps, len(sought.rivals), sought.count)
    retreat = count_retreats(planned, len(sought.rivals), steps) > 0
    spent, half = 0, sum(r.searches * r.steps for r in planned) // 2
    halfway = x.new_full((len(x),), torch.inf)
    # Round 1: many short searches
    descents = _openings(sought, x, ball, planned[0].searches, rng)
    for number, part in enumerate(planned):
        for descent in descents:
            for step in range(part.steps):
                descent.step(step / part.steps)
                spent += 1
                # What is known after half of the budget, for those who ask whether more would help
                if spent == half:
                    halfway = torch.stack([d.smallest.radius for d in descents]).amin(0)
        # The next round: of every image the nearest broken ones go on
        if number + 1 < len(planned):
            descents = _best(sought, x, ball, descents, planned[number + 1].searches, retreat)
    # The last round has one search
    smallest = descents[0].smallest
    smallest.retreat(sought.goal, HALVINGS)
    return smallest, halfway


def _openings(sought: Sought, x: Images, ball: Ball, count: int, rng: Rng) -> list[Descent]:
    """Return the searches of the first round: for the goal, its rivals, from other images; or restarts."""
    # The goal first, then as many rivals as fit beside ways from other images; what is left: restarts
    begins = edges(count, sought.count)
    goals = [sought.goal, *sought.rivals[: count - 1 - begins]]
    restarts = count - begins - len(goals)
    aside = [ASIDE] * len(goals) + [FARTHER] * restarts
    descents = []
    for number, (goal, share) in enumerate(zip([*goals, *[sought.goal] * restarts], aside, strict=True)):
        noise = ball.ascend(rng.child("tournament", number).normal(*x.shape[1:]).to(x))
        start = (x + share * torch.tensor(ball.even(image_shape(x)), dtype=x.dtype) * noise).clamp(0, 1)
        other = None  # of a rival its image, of all else the nearest one; read once, and only where it is needed
        if sought.images is not None:
            other = cache(partial(sought.images, min(max(0, number - 1), sought.count - 1)))
        descents.append(Descent(goal, ball, Smallest(sought.breaks, x, ball), start, stride=STRIDES[0], other=other))
    for number in range(begins):
        assert sought.images is not None  # as many as are counted
        # Some halvings of the way bring the start from the other image, far away, to just beyond the edge
        smallest, image = Smallest(sought.breaks, x, ball), sought.images(number)
        smallest.see(image, evaluate(sought.goal, image)[1])
        smallest.retreat(sought.goal, LOOKS)
        descents.append(Descent(sought.goal, ball, smallest, smallest.image, smallest.radius, STRIDES[1]))
    return descents


def _best(
    sought: Sought, x: Images, ball: Ball, descents: Sequence[Descent], count: int, retreat: bool
) -> list[Descent]:
    """Return the searches that go on: of each image from its nearest broken ones, each search from another."""
    radii: Float[Tensor, "searches batch"] = torch.stack([descent.smallest.radius for descent in descents])
    # [searches, B]; stable, so that of searches without a broken image the likely ways go on
    order = radii.argsort(dim=0, stable=True)
    chosen = []
    for rank in range(count):
        smallest, start, allowed = Smallest(sought.breaks, x, ball), x, torch.zeros_like(radii[0])
        # Image by image: rank 0 goes on from each image's nearest broken one, whichever search met it
        for number, descent in enumerate(descents):
            picked = order[rank] == number
            broken = picked & descent.smallest.radius.isfinite()
            smallest.take(picked, descent.smallest)
            # A search that broke nothing goes on where it stands, with the ε that it had
            start = pick(picked, pick(broken, descent.smallest.image, descent.at), start)
            allowed = torch.where(picked, torch.where(broken, descent.smallest.radius, descent.allowed), allowed)
        # After the choice: ways back of searches that do not go on would be in vain
        if retreat:
            smallest.retreat(sought.goal, LOOKS)
            broken = smallest.radius.isfinite()
            start, allowed = pick(broken, smallest.image, start), torch.where(broken, smallest.radius, allowed)
        chosen.append(Descent(sought.goal, ball, smallest, start, allowed, STRIDES[1]))
    return chosen
