"""Local shuffling: in each cell of a grid the pixels change places."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.threats.shared.grid import Cells, Shuffle, permutation


@dataclass(frozen=True)
class LocalShuffle(Shuffle):
    """x cut into grid x grid cells, in each of which pixel j shows what pixel π(j) did: y_ij = x_iπ(j), one π for all.

    π is the same for all cells, channels and images. It is drawn from `seed` and not from the seed of an audit: it is
    what the corruption *is*, so training images, test images and other audits meet the same. It is never the identity,
    but where cells are single pixels, which leaves images as they are.

    Source: Zhong et al. (2022), section 2.2. The text speaks of p x p patches; its figures and tables show that LnXn
    names an n x n grid of them.

    Example:
        >>> from holdfast.core import Rng
        >>> x = torch.arange(16.0).view(1, 1, 4, 4) / 16
        >>> shuffled = LocalShuffle(grid=2).sample(x, Rng(0, ids=("a",)))
        >>> sorted((16 * shuffled).flatten().int().tolist()) == list(range(16))
        True
    """

    letter = "L"

    def order(self, height: int, width: int) -> Int[Tensor, "pixels"]:
        """Return π for images of this size: which pixel each place of a cell shows, row by row."""
        # The permutation is named by the size of a cell, so images of any
        # size share that of equal cells
        cell = (self.cell, self.cell) if self.cell else (height // self.grid, width // self.grid)
        return permutation(Rng(self.seed).child("local_shuffle", *cell), cell[0] * cell[1])

    def permute(self, parts: Cells, order: Int[Tensor, "pixels"]) -> Cells:
        """Return the cells with their pixels in other places."""
        return parts[..., order]
