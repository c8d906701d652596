"""Cross-domain similarity local scaling: a similarity less what both sides have with their neighbours anyway."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.rescaling import Local, Rescaling
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class Csls(Rescaling):
    """d' = d(q, z) - (a_q + a_z) / 2, a the mean distance from the nearest images.

    For the cosine distance it orders as CSLS = 2 cos(q, z) - r_q - r_z, r the mean similarity, does: d' = -CSLS / 2.

    Attributes:
        neighbours: how many images are near.

    Source: Conneau et al. (2018).

    Example:
        >>> import torch
        >>> csls = Csls(neighbours=2)
        >>> csls.local(torch.tensor([1.0, 2.0, 9.0])).tolist()
        [1.5]
        >>> csls(torch.tensor(3.0), torch.tensor([1.5]), torch.tensor([0.5])).item()
        2.0
    """

    neighbours: Count = 10

    title = "cross-domain similarity local scaling"

    def local(self, distances: Float[Tensor, "*items others"]) -> Local:
        """Return the mean distance from the nearest images."""
        nearest = distances.topk(min(self.neighbours, distances.shape[-1]), largest=False).values
        return nearest.mean(-1, keepdim=True)

    def __call__(self, apart: Float[Tensor, "*pairs"], query: Local, item: Local) -> Float[Tensor, "*pairs"]:
        """Return d'."""
        # What both sides have with their surroundings anyway
        return apart - (query[..., 0] + item[..., 0]) / 2
