"""Plain: searches go by the distance itself."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.rescaling import Local, Rescaling


@dataclass(frozen=True)
class Plain(Rescaling):
    """d' = d(q, z), whatever is around both.

    Example:
        >>> import torch
        >>> Plain()(torch.tensor(3.0), torch.zeros(0), torch.zeros(0)).item()
        3.0
    """

    title = "the distance itself"
    plain = True

    def local(self, distances: Float[Tensor, "*items others"]) -> Local:
        """Return nothing."""
        return distances[..., :0]

    def __call__(self, apart: Float[Tensor, "*pairs"], query: Local, item: Local) -> Float[Tensor, "*pairs"]:
        """Return the distance."""
        return apart
