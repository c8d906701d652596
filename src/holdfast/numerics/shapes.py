"""Shapes that tensors have everywhere."""

from jaxtyping import Float, Int
from torch import Tensor

Images = Float[Tensor, "batch channel height width"]
Reps = Float[Tensor, "batch dim"]
PerImage = Float[Tensor, "batch"]
Positions = Int[Tensor, "batch"]
