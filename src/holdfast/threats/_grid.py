"""Images as grids of cells, and the one permutation that a shuffle applies to all of them."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import HoldfastError, Images, Rng

Cells = Float[Tensor, "batch channel cells pixels"]


def layout(x: Images, grid: int, cell: int) -> tuple[int, int]:
    """Return rows and columns of cells: grid x grid, or (where not 0) as many as cells of `cell` pixels make.

    Raises:
        HoldfastError: a grid, or cells, that do not divide both sides.
    """
    height, width = x.shape[2:]
    common = math.gcd(height, width)
    count, what = (cell, "cells whose side divides") if cell else (grid, "a grid that divides")
    if common % count:
        known = [n for n in range(1, common + 1) if common % n == 0]
        near = [max(n for n in known if n < count), *[n for n in known if n > count][:1]]
        raise HoldfastError(
            f"shuffle: expected {what} both sides of {height} x {width} images, got {count}; the nearest: "
            f"{' and '.join(map(str, near))}"
        )
    return (height // cell, width // cell) if cell else (grid, grid)


def cells(x: Images, grid: tuple[int, int]) -> Cells:
    """Return the cells of images, row by row, and in each its pixels row by row: [B, C, cells, pixels]."""
    parts = x.unflatten(3, (grid[1], -1)).unflatten(2, (grid[0], -1))  # [B, C, row of cells, row, column of cells, ..]
    return parts.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def whole(parts: Cells, grid: tuple[int, int], width: int) -> Images:
    """Return the images of some cells, `width` pixels wide; the inverse of `cells`."""
    split = parts.unflatten(2, grid).unflatten(4, (-1, width // grid[1]))
    return split.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def permutation(rng: Rng, size: int) -> Int[Tensor, "size"]:
    """Return a uniform permutation of `size` things that moves some of them; [0] of one thing."""
    generator = rng.generator()
    order = torch.randperm(size, generator=generator)
    while size > 1 and bool((order == torch.arange(size)).all()):  # would pass for a shuffle that does no harm
        order = torch.randperm(size, generator=generator)
    return order


def checked(grid: int, cell: int) -> None:
    """Refuse numbers of cells, and sizes of cells, that no image can have.

    Raises:
        HoldfastError: a grid that is not a whole number from 1 on, or a cell that is not one from 0 on.
    """
    if not isinstance(grid, int) or not isinstance(cell, int) or grid < 1 or cell < 0:
        raise HoldfastError(
            "shuffle: expected a whole number of cells along each side (grid), or of pixels along a cell's (cell), at "
            f"least 1; got grid={grid}, cell={cell}"
        )


def named(letter: str, grid: int, cell: int, seed: int) -> str:
    """Return what a shuffle is called."""
    size = f"{letter}, cells of {cell} px" if cell else f"{letter}{grid}x{grid}"
    return size + (f" ({seed})" if seed else "")
