"""Images as grids of cells, and the one permutation that a shuffle applies to all of them."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import HoldfastError, Images, Rng

Cells = Float[Tensor, "batch channel cells pixels"]


def cells(x: Images, grid: int) -> Cells:
    """Return the grid x grid cells of images, row by row, and in each its pixels row by row: [B, C, cells, pixels].

    Raises:
        HoldfastError: a grid that does not divide both sides.
    """
    height, width = x.shape[2:]
    if height % grid or width % grid:
        known = [n for n in range(1, min(height, width) + 1) if math.gcd(height, width) % n == 0]
        near = [max(n for n in known if n < grid), *[n for n in known if n > grid][:1]]
        raise HoldfastError(
            f"shuffle: expected a grid that divides both sides of {height} x {width} images, got {grid}; the nearest: "
            f"{' and '.join(map(str, near))}"
        )
    parts = x.unflatten(3, (grid, -1)).unflatten(2, (grid, -1))  # [B, C, row of cells, row, column of cells, column]
    return parts.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def whole(parts: Cells, grid: int, width: int) -> Images:
    """Return the images of some cells, `width` pixels wide; the inverse of `cells`."""
    split = parts.unflatten(2, (grid, grid)).unflatten(4, (-1, width // grid))
    return split.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def permutation(rng: Rng, size: int) -> Int[Tensor, "size"]:
    """Return a uniform permutation of `size` things that moves some of them; [0] of one thing."""
    generator = rng.generator()
    order = torch.randperm(size, generator=generator)
    while size > 1 and bool((order == torch.arange(size)).all()):  # would pass for a shuffle that does no harm
        order = torch.randperm(size, generator=generator)
    return order


def checked(grid: int) -> None:
    """Refuse numbers of cells that no image can have.

    Raises:
        HoldfastError: a grid that is not a whole number from 1 on.
    """
    if not isinstance(grid, int) or grid < 1:
        raise HoldfastError(f"shuffle: expected a whole number of cells along each side, at least 1, got grid={grid}")
