"""Global shuffling: the cells of a grid change places, each as it is."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.threats._grid import cells, checked, permutation, whole


@dataclass(frozen=True)
class GlobalShuffle(Corruption):
    """x cut into grid x grid cells, where place i shows cell π(i): y_i = x_π(i), one π for all images and channels.

    π is drawn from `seed` and not from the seed of an audit: it is what the corruption *is*, so training images, test
    images and other audits meet the same. It is never the identity, but for a grid of 1, which leaves images alone.

    Attributes:
        grid: cells along each side; it must divide the height and the width.
        seed: names the permutation.

    Source: Zhong et al. (2022), "Is self-supervised contrastive learning more robust than supervised learning?",
    section 2.2. The text speaks of p x p patches; its figures and tables show that GnXn names an n x n grid of them.
    """

    grid: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        checked(self.grid)

    @property
    def title(self) -> str:
        """For example "G4x4"."""
        return f"G{self.grid}x{self.grid}" + (f" ({self.seed})" if self.seed else "")

    @property
    def order(self) -> Int[Tensor, "cells"]:
        """π: which cell each place shows, row by row."""
        return permutation(Rng(self.seed).child("global_shuffle", self.grid), self.grid**2)

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the shuffled images; nothing is drawn.

        Raises:
            HoldfastError: a grid that does not divide both sides.
        """
        return whole(cells(x, self.grid)[:, :, self.order], self.grid, x.shape[3])

    def undo(self, x: Images) -> Images:
        """Return the images that `sample` gives these for."""
        return whole(cells(x, self.grid)[:, :, self.order.argsort()], self.grid, x.shape[3])
