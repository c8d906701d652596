"""Shapes that tensors have everywhere, and tables of them."""

from jaxtyping import Float, Int
from torch import Tensor

Images = Float[Tensor, "batch channel height width"]
Reps = Float[Tensor, "batch dim"]
PerImage = Float[Tensor, "batch"]
Positions = Int[Tensor, "batch"]

Table = dict[str, Tensor]
"""Named columns of equal length, one row per image: what a measure observed."""
