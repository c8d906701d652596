"""Local shuffling: in each cell of a grid the pixels change places."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.threats._grid import cells, checked, layout, named, permutation, whole


@dataclass(frozen=True)
class LocalShuffle(Corruption):
    """x cut into grid x grid cells, in each of which pixel j shows what pixel π(j) did: y_ij = x_iπ(j), one π for all.

    π is the same for all cells, channels and images. It is drawn from `seed` and not from the seed of an audit: it is
    what the corruption *is*, so training images, test images and other audits meet the same. It is never the identity,
    but where cells are single pixels, which leaves images as they are.

    Attributes:
        grid: cells along each side; it must divide the height and the width.
        cell: side of a cell in pixels, instead of a grid: as many cells as the image has room for; 0: a grid.
        seed: names the permutation.

    Source: Zhong et al. (2022), "Is self-supervised contrastive learning more robust than supervised learning?",
    section 2.2. The text speaks of p x p patches; its figures and tables show that LnXn names an n x n grid of them.
    """

    grid: int = 4
    cell: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        checked(self.grid, self.cell)

    @property
    def title(self) -> str:
        """For example "L4x4"."""
        return named("L", self.grid, self.cell, self.seed)

    def order(self, height: int, width: int) -> Int[Tensor, "pixels"]:
        """Return π for images of this size: which pixel each place of a cell shows, row by row."""
        cell = (self.cell, self.cell) if self.cell else (height // self.grid, width // self.grid)
        return permutation(Rng(self.seed).child("local_shuffle", *cell), cell[0] * cell[1])

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the shuffled images; nothing is drawn.

        Raises:
            HoldfastError: a grid that does not divide both sides.
        """
        return self._moved(x, self.order(*x.shape[2:]))

    def undo(self, x: Images) -> Images:
        """Return the images that `sample` gives these for."""
        return self._moved(x, self.order(*x.shape[2:]).argsort())

    def _moved(self, x: Images, order: Int[Tensor, "pixels"]) -> Images:
        grid = layout(x, self.grid, self.cell)
        return whole(cells(x, grid)[..., order], grid, x.shape[3])
