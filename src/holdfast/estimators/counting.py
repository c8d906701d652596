"""A fixed number of draws for every image."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.estimators._draws import Draws


@dataclass(frozen=True)
class Counting(Draws):
    """PR ≈ 1 - k/n: k of n draws fail. An image's interval is the exact binomial one.

    Attributes:
        most: n, draws for each image.

    Source: NPPR, Def. 2 and section 5 (100 draws).
    """

    most: int = 100

    def known(self, failed: Int[Tensor, "images"], draws: int) -> Bool[Tensor, "images"]:
        """Return whether all draws are made."""
        return torch.full(failed.shape, draws >= self.most)
