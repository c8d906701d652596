"""Boxes: the lowest and the highest value of every number."""

from jaxtyping import Float
from torch import Tensor

Box = tuple[Tensor, Tensor]
"""Lowest and highest values, [B, *shape] each."""


def least_in_box(
    slopes: Float[Tensor, "*#batch rows pixels"],
    low: Float[Tensor, "*batch pixels"],
    high: Float[Tensor, "*batch pixels"],
) -> Float[Tensor, "*batch rows"]:
    """Return min slopes · x' over a box: slopes · centre - |slopes| · half-width, exact up to rounding.

    Args:
        slopes: of R linear functions, [B, R, P].
        low: of every pixel, [B, P].
        high: of every pixel, [B, P].

    Example:
        >>> least_in_box(torch.tensor([[[1.0, -2.0]]]), torch.zeros(1, 2), torch.ones(1, 2)).tolist()
        [[-2.0]]
    """
    # Two matrix products; to choose an end for each slope would make a tensor of all single products
    centre, half = (low + high) / 2, (high - low) / 2
    return (slopes @ centre[..., None] - slopes.abs() @ half[..., None]).squeeze(-1)
