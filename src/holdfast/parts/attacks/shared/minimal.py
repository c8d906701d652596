"""The smallest change that breaks something, by one search: the attack's side of a radius."""

from holdfast.core import Ball, Goal, Images, Passes, PerImage, Reps
from holdfast.parts.attacks.shared.descent import Descent
from holdfast.parts.attacks.shared.gradient import evaluate
from holdfast.parts.attacks.shared.smallest import Breaks, Smallest
from holdfast.runtime.waiting import defer_expectations

HALVINGS = 10
"""Halvings of the way from the image to the smallest broken one at the end."""


@defer_expectations()
def minimal_radius(
    goal: Goal,
    breaks: Breaks,
    x: Images,
    ball: Ball,
    steps: int,
    broken: Images | None = None,
    start: Images | None = None,
) -> tuple[PerImage, Images, Reps]:
    """Return for each image the smallest radius at which a broken image was found, in pixels, that image and its f.

    A `Descent`. Searches that have broken nothing after a quarter of the steps go on from the edge of what is broken
    between x and `broken`. Then the way back to x is halved. What is returned has been seen to break the encoder;
    where nothing was broken the radius is infinite, the image x, and its representation NaN.

    Args:
        goal: what to maximise, zero where things break.
        breaks: what counts as broken; the last word.
        x: clean images, [B, C, H, W].
        ball: the norm; its own radius is not read.
        steps: gradient steps.
        broken: images that are known to break, far away as they may be, such as the negatives themselves.
        start: where the search begins, for goals without a gradient at x itself; None: at x.
    """
    smallest = Smallest(breaks, x, ball)
    if broken is not None:
        smallest.see(broken, evaluate(goal, broken)[1])
        smallest.retreat(goal, HALVINGS)
    descent = Descent(goal, ball, smallest, x if start is None else start)
    for step in range(steps):
        # a quarter of the way: searches that broke nothing go on from the given broken image
        if step == steps // 4:
            descent.go_on_from(smallest.image, descent.lost & smallest.radius.isfinite())
        descent.step(step / steps)
    # the last iterate counts too; then bisect the way back to x
    smallest.see(descent.at, evaluate(goal, descent.at)[1])
    smallest.retreat(goal, HALVINGS)
    assert smallest.reps is not None  # the last look has been noted
    return smallest.radius, smallest.image, smallest.reps


def passes(steps: int, from_broken: bool) -> Passes:
    """Encoder passes that `minimal_radius` costs for one image, with or without an image that is known to break."""
    return Passes(forward=steps + 1 + HALVINGS + (1 + HALVINGS) * from_broken, backward=steps)
