"""Local scaling: a distance in units of how far both sides are from their neighbours."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.rescaling import Local, Rescaling
from holdfast.runtime.checked import Count


@dataclass(frozen=True)
class LocalScaling(Rescaling):
    """d' = d(q, z)² / (a_q a_z), a the distance from the last of the nearest images.

    It orders as 1 - exp(-d'), the usual form, does.

    Attributes:
        neighbours: how many images are near.

    Source: Zelnik-Manor & Perona (2004); against hubs Schnitzer et al. (2012).

    Example:
        >>> import torch
        >>> scaling = LocalScaling(neighbours=2)
        >>> scaling.local(torch.tensor([1.0, 2.0, 9.0])).tolist()
        [2.0]
        >>> scaling(torch.tensor(3.0), torch.tensor([2.0]), torch.tensor([1.5])).item()
        3.0
    """

    neighbours: Count = 10

    title = "local scaling"

    def local(self, distances: Float[Tensor, "*items others"]) -> Local:
        """Return the distance from the last of the nearest images, which is above 0."""
        nearest = distances.topk(min(self.neighbours, distances.shape[-1]), largest=False).values
        # Copies of one image have no scale: any other distance is many of theirs
        return nearest[..., -1:].clamp_min(1e-12)

    def __call__(self, apart: Float[Tensor, "*pairs"], query: Local, item: Local) -> Float[Tensor, "*pairs"]:
        """Return d'."""
        return apart.square() / (query[..., 0] * item[..., 0])
