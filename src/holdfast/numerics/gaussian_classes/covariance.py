"""Covariances of whole images, never written out as matrices: a few directions, and one variance for the rest."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.gaussian_classes.robust_bayes import directions
from holdfast.runtime.errors import BadValue, NotEnough

Vectors = Float[Tensor, "images pixels"]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Σ = V diag(v) Vᵀ + r I of d pixels.

    Attributes:
        vectors: V, orthonormal columns, [d, k]; with k = 0 the noise is isotropic.
        values: v >= 0, the variance in them above the rest, [k].
        rest: r >= 0, the variance in every direction.

    Raises:
        HoldfastError: variances below 0, or none at all.
    """

    vectors: Float[Tensor, "pixels k"]
    values: Float[Tensor, "k"]
    rest: float = 1.0

    def __post_init__(self) -> None:
        if not (self.rest >= 0 and bool((self.values >= 0).all()) and self.rest + float(self.values.sum()) > 0):
            raise BadValue("covariance: expected variances >= 0, and some above 0, got others")

    def draw(self, count: int, random: np.random.Generator) -> Vectors:
        """Draw from N(0, Σ) in float32: √r n + V √v g for standard normal n and g; in one block or many, the same.

        Args:
            count: how many, the rows.
            random: where numbers come from; d + k of them for every row.
        """
        pixels, k = self.vectors.shape
        # One run of d + k numbers for each row, so that blocks of rows draw what all at once would
        normals = torch.from_numpy(random.standard_normal((count, pixels + k), dtype=np.float32))
        if k == 0:
            return normals.mul_(self.rest**0.5)
        along = normals[:, pixels:] * self.values.sqrt().float()
        # √r n + (√v g) Vᵀ, [count, d]
        return torch.addmm(normals[:, :pixels], along, self.vectors.float().T, beta=self.rest**0.5)

    def mahalanobis(self, direction: Float[Tensor, "pixels"]) -> float:
        """Return ||Σ^(-1/2) u||: how long u is in units of the noise; infinite where there is none along u.

        Args:
            direction: u, [d].
        """
        direction, vectors = direction.double(), self.vectors.double()
        # Along each column, and what is left outside all of them
        inside = direction @ vectors
        outside = float((direction - vectors @ inside).square().sum())
        squares = [*inside.square().tolist(), outside]
        variances = [*(self.values.double() + self.rest).tolist(), self.rest]
        least = 1e-12 * float(direction.square().sum())  # what is below is rounding
        # Without noise along u its length has no unit
        parts = [(square, variance) for square, variance in zip(squares, variances, strict=True) if square > least]
        return math.inf if any(v == 0 for _, v in parts) else math.sqrt(sum(square / v for square, v in parts))


def isotropic(pixels: int) -> Covariance:
    """Return the covariance I of independent pixels.

    Example:
        >>> isotropic(3).mahalanobis(torch.tensor([3.0, 4.0, 0.0]))
        5.0
    """
    return Covariance(torch.empty(pixels, 0), torch.empty(0))


def of_images(x: Vectors) -> tuple[Float[Tensor, "pixels"], Covariance]:
    """Return the mean of images and their covariance, shrunk as Ledoit and Wolf do, both in float32.

    The covariance is XᵀX / (n-1) of the centred images before shrinkage, computed from the smaller Gram matrix.

    Args:
        x: images as vectors of pixels, [n, d].

    Raises:
        HoldfastError: fewer than 2 images, images that are all alike, or pixels that are not finite.

    Example:
        >>> mean, covariance = of_images(torch.tensor([[0.0, 0.5], [1.0, 0.5], [0.5, 0.5]]))
        >>> mean.tolist()
        [0.5, 0.5]
    """
    if len(x) < 2 or not bool(x.isfinite().all()):
        raise NotEnough(f"covariance of images: expected 2 or more finite images, got {len(x)}; give more images")
    x = x.detach().cpu().double()
    mean = x.mean(0)
    centred = x - mean
    vectors, values, rest = directions(centred, len(x) - 1, shrinkage="ledoit_wolf", cutoff=0.0)
    # Images that differ by no more than float32 rounds are equal
    if float(centred.abs().max()) < 1e-6 or rest + float(values.sum()) == 0:
        raise NotEnough("covariance of images: expected images that differ, got equal ones; give others")
    return mean.float(), Covariance(vectors.float(), values.float(), rest)
