"""Plasma: clouds by the diamond-square algorithm."""

import torch
from jaxtyping import Float
from torch import Tensor


def plasma(u: Float[Tensor, "batch side side"], decay: float) -> Float[Tensor, "batch side side"]:
    """Return fractal clouds in [0, 1] that go on at their edges, a power of two wide.

    Points half a step apart get the mean of their four neighbours at the last scale and a random number: squares first,
    then diamonds. Its size is the square of 100, 100 / decay, 100 / decay², ..., as in the published code.

    Args:
        u: uniform numbers in [-1, 1], one for each point.
        decay: how fast the randomness falls from one scale to the next.
    """
    height, side = torch.zeros_like(u), u.shape[-1]
    step, size = side, 100.0
    while step >= 2:
        half = step // 2
        # What is known at this scale, and the places halfway between
        corner, middle = slice(0, None, step), slice(half, None, step)

        def fill(rows: slice, columns: slice, total: Tensor, size: float = size) -> None:
            # Every point is filled once, and has a random number of its own
            height[:, rows, columns] = total / 4 + size**2 * u[:, rows, columns]

        # Squares: the mean of four corners; `roll` goes on at the opposite edge
        corners = height[:, corner, corner]
        across = corners + corners.roll(-1, 1)
        fill(middle, middle, across + across.roll(-1, 2))
        # Diamonds: the mean of the two corners and the two middles around each side
        middles = height[:, middle, middle]
        fill(corner, middle, middles + middles.roll(1, 1) + corners + corners.roll(-1, 2))
        fill(middle, corner, middles + middles.roll(1, 2) + corners + corners.roll(-1, 1))
        step, size = half, size / decay
    lowest, highest = height.amin((1, 2), keepdim=True), height.amax((1, 2), keepdim=True)
    return (height - lowest) / (highest - lowest)
