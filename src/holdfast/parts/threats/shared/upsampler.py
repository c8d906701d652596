"""From a latent vector to a picture: a small linear layer, then bicubic interpolation as two matrix products."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

KINDS = ("none", "bicubic", "fixed", "learned")
"""What up-samplers there are."""


def latent_of(kind: str, latent: int, shape: tuple[int, int, int], side: int) -> int:
    """Return the length of the latent vector: where it is a picture itself, large or small, that of the picture.

    Example:
        >>> latent_of("bicubic", 128, (3, 32, 32), side=4), latent_of("learned", 128, (3, 32, 32), side=4)
        (48, 128)
    """
    own = {"none": math.prod(shape), "bicubic": shape[0] * side**2}
    return own.get(kind, latent)


class Upsampler(nn.Module):
    """u = bicubic(W z + b): [*, latent] -> [*, C, H, W]; or u = z, reshaped, where the latent is all pixels.

    Interpolation is linear in each direction by itself: a picture P becomes Aᵀ P B, where A and B are taken from
    torch's own interpolation of unit vectors. One matrix for both directions would take ten times the products.

    Args:
        kind: "none" (latent = C·H·W), "bicubic" (latent = C·side², no W, as in the authors' code), "fixed" (W random,
            never trained) or "learned".
        latent: length of the latent vector.
        shape: (channels, height, width) of the images.
        side: height and width of the small picture that is interpolated.
    """

    weight: Tensor
    bias: Tensor
    rows: Tensor
    columns: Tensor

    def __init__(self, kind: str, latent: int, shape: tuple[int, int, int], side: int):
        super().__init__()
        self.kind, self.shape = kind, shape
        if kind == "none":
            return
        # Not saved with the weights: they follow from the sizes
        self.register_buffer("rows", bicubic(side, shape[1]), persistent=False)
        self.register_buffer("columns", bicubic(side, shape[2]), persistent=False)
        if kind == "bicubic":
            return
        weight = torch.randn(shape[0] * side**2, latent) / math.sqrt(latent)  # a latent of unit variance keeps it
        bias = torch.zeros(shape[0] * side**2)
        if kind == "learned":
            self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        else:
            self.register_buffer("weight", weight)
            self.register_buffer("bias", bias)

    def forward(self, latent: Float[Tensor, "*batch latent"]) -> Float[Tensor, "*batch channel height width"]:
        """Return the pictures u of some latent vectors, before they are squashed into a ball."""
        if self.kind == "none":
            return latent.unflatten(-1, self.shape)
        small = latent if self.kind == "bicubic" else F.linear(latent, self.weight, self.bias)
        # NPPR, Eq. 44: each small picture P, [*, C, side, side], becomes Aᵀ P B
        pictures = small.unflatten(-1, (self.shape[0], -1, len(self.columns)))
        return self.rows.mT @ (pictures @ self.columns)


def bicubic(side: int, length: int) -> Float[Tensor, "side length"]:
    """Return the matrix that interpolates a row of `side` numbers to one of `length`."""
    # What interpolation makes of unit vectors are the rows of its matrix
    unit = torch.eye(side).view(side, 1, 1, side)
    return F.interpolate(unit, (1, length), mode="bicubic", align_corners=False).flatten(1)
