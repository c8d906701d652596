"""Images as grids of cells, and the one permutation that a shuffle applies to all of them."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.checked import Count
from holdfast.runtime.errors import Mismatch

Cells = Float[Tensor, "batch channel cells pixels"]


def layout(x: Images, grid: int, cell: int) -> tuple[int, int]:
    """Return rows and columns of cells: grid x grid, or (where not 0) as many as cells of `cell` pixels make.

    Raises:
        HoldfastError: a grid, or cells, that do not divide both sides.
    """
    height, width = x.shape[2:]
    common = math.gcd(height, width)
    count, requirement = (cell, "cells whose side divides") if cell else (grid, "a grid that divides")
    if common % count:
        divisors = [n for n in range(1, common + 1) if common % n == 0]
        # The nearest divisors below and above, for the message
        near = [max(n for n in divisors if n < count), *[n for n in divisors if n > count][:1]]
        raise Mismatch(
            f"shuffle: expected {requirement} both sides of {height} x {width} images, got {count}; the nearest: "
            f"{' and '.join(map(str, near))}"
        )
    return (height // cell, width // cell) if cell else (grid, grid)


def cells(x: Images, grid: tuple[int, int]) -> Cells:
    """Return the cells of images, row by row, and in each its pixels row by row: [B, C, cells, pixels]."""
    parts = x.unflatten(3, (grid[1], -1)).unflatten(2, (grid[0], -1))  # [B, C, row of cells, row, column of cells, ..]
    return parts.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def from_cells(parts: Cells, grid: tuple[int, int], width: int) -> Images:
    """Return the images of some cells, `width` pixels wide; the inverse of `cells`."""
    # [B, C, row of cells, column of cells, row, column], then the rows
    # of a row of cells side by side
    split = parts.unflatten(2, grid).unflatten(4, (-1, width // grid[1]))
    return split.transpose(3, 4).flatten(4, 5).flatten(2, 3)


def permutation(rng: Rng, size: int) -> Int[Tensor, "size"]:
    """Return a uniform permutation of `size` things that moves some of them; [0] of one thing."""
    generator = rng.generator()
    order = torch.randperm(size, generator=generator)
    while size > 1 and bool((order == torch.arange(size)).all()):  # would pass for a shuffle that does no harm
        order = torch.randperm(size, generator=generator)
    return order


@dataclass(frozen=True)
class Shuffle(Corruption):
    """A shuffle on a grid of cells, the same for all images and channels.

    The permutation is drawn from `seed` and not from the seed of an audit: it is what the corruption *is*, so training
    images, test images and other audits meet the same.

    Of images that are resized afterwards, whose sides may be any, it shuffles the largest part in the middle that the
    cells fill, and the border of less than `tile` pixels stays.

    Attributes:
        grid: cells along each side; it must divide the height and the width.
        cell: side of a cell in pixels, instead of a grid: as many cells as the image has room for; 0: a grid.
        seed: names the permutation.
    """

    grid: Count = 4
    cell: int = 0
    seed: int = 0

    letter: ClassVar[str]
    moves_pixels = True

    @property
    def title(self) -> str:
        """For example "G4x4"."""
        size = f", cells of {self.cell} px" if self.cell else f"{self.grid}x{self.grid}"
        return f"{self.letter}{size}" + (f" ({self.seed})" if self.seed else "") + self.resize_suffix

    @property
    def tile(self) -> int:
        """The sides of what is shuffled are multiples of the number of cells, or of their side."""
        return self.cell or self.grid

    @abstractmethod
    def order(self, height: int, width: int) -> Int[Tensor, "things"]:
        """Return the permutation for images of this size: which thing each place shows, row by row."""

    @abstractmethod
    def permute(self, parts: Cells, order: Int[Tensor, "things"]) -> Cells:
        """Return cells whose things stand in another order."""

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the shuffled images; nothing is drawn.

        Raises:
            HoldfastError: a grid that does not divide both sides.
        """
        return self._apply_order(x, self.order(*x.shape[2:]))

    def _apply_order(self, x: Images, order: Int[Tensor, "things"]) -> Images:
        grid = layout(x, self.grid, self.cell)
        return from_cells(self.permute(cells(x, grid), order), grid, x.shape[3])
