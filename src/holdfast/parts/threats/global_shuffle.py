"""Global shuffling: the cells of a grid change places, each as it is."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Rng
from holdfast.parts.threats.shared.grid import Cells, Shuffle, permutation


@dataclass(frozen=True)
class GlobalShuffle(Shuffle):
    """x cut into grid x grid cells, where place i shows cell π(i): y_i = x_π(i), one π for all images and channels.

    π is drawn from `seed` and not from the seed of an audit: it is what the corruption *is*, so training images, test
    images and other audits meet the same. It is never the identity, but for a grid of 1, which leaves images alone.

    Source: Zhong et al. (2022), section 2.2. The text speaks of p x p patches; its figures and tables show that GnXn
    names an n x n grid of them.

    Example:
        >>> from holdfast.core import Rng
        >>> x = torch.arange(16.0).view(1, 1, 4, 4) / 16
        >>> shuffled = GlobalShuffle(grid=2).sample(x, Rng(0, ids=("a",)))
        >>> sorted((16 * shuffled).flatten().int().tolist()) == list(range(16))
        True
    """

    letter = "G"

    def order(self, height: int, width: int) -> Int[Tensor, "cells"]:
        """Return π for images of this size: which cell each place shows, row by row."""
        rows, columns = (height // self.cell, width // self.cell) if self.cell else (self.grid, self.grid)
        # The counts are part of the name, so that grids of other sizes are unrelated
        return permutation(Rng(self.seed).child("global_shuffle", rows, columns), rows * columns)

    def permute(self, parts: Cells, order: Int[Tensor, "cells"]) -> Cells:
        """Return the cells with other places."""
        return parts[:, :, order]
