"""A fixed number of draws for every image."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.statistics import clopper_pearson
from holdfast.parts.estimators.shared.draws import Draws


@dataclass(frozen=True)
class Counting(Draws):
    """PR ≈ 1 - k/n: k of n draws fail. An image's interval is the exact binomial one.

    Attributes:
        most: n, draws for each image.

    Source: Wang et al. (2025), Def. 2 and section 5 (100 draws).

    Example:
        >>> low, high = Counting(100).interval(torch.tensor([3]), torch.tensor([100]))
        >>> print(f"{low.item():.3f} to {high.item():.3f}")
        0.006 to 0.085
    """

    most: int = 100

    @property
    def adaptive(self) -> bool:
        """Every image gets all draws."""
        return False

    @property
    def common(self) -> int:
        """All of them."""
        return self.most

    def interval(
        self, failed: Int[Tensor, "images"], drawn: Int[Tensor, "images"]
    ) -> tuple[Float[Tensor, "images"], Float[Tensor, "images"]]:
        """Return the ends of the exact binomial 95 % interval of P[failure] of each image."""
        ends = [clopper_pearson(k, n) for k, n in zip(failed.tolist(), drawn.tolist(), strict=True)]
        # Two columns also where there are no images
        low, high = torch.tensor(ends, dtype=torch.float64).view(-1, 2).unbind(1)
        return low, high

    def should_stop(self, failed: Int[Tensor, "images"], draws: int) -> Bool[Tensor, "images"]:
        """Whether all draws are made."""
        return torch.full(failed.shape, draws >= self.most)
