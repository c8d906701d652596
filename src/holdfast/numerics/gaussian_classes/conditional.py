"""Two Gaussian classes of images whose best classifiers are known exactly: problems with a known truth."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Num
from torch import Tensor

from holdfast.numerics.gaussian_classes.covariance import Covariance
from holdfast.numerics.gaussian_classes.robust_bayes import GaussianClasses, build_mixture
from holdfast.runtime.errors import BadValue, Mismatch

Direction = Float[Tensor, "pixels"]


@dataclass(frozen=True, eq=False)
class ConditionalGaussian:
    """x | y = centre + scale (y μ + n), y = ±1, n ~ N(0, Σ) and μ = s u / ||Σ^(-1/2) u||: the classes are 2s σ apart.

    So Φ(s) is the best accuracy, whatever Σ, u and the scale.

    Attributes:
        shape: of an image, whatever its number of axes; d is their product.
        direction: u, the way from one class to the other, [d]; its length does not matter.
        s: half the distance of the classes in units of the noise along it, positive.
        covariance: Σ of the noise.
        share: P(y = 1).
        scale: pixels for one unit of the model.
        clamp: whether pixels are brought back to [0, 1]; the exact optimum is that of those that are not.
        centre: the point between the classes, [d]; mid-grey, 0.5, where None.

    Raises:
        HoldfastError: parts of other sizes, s or scale that are not positive, or a direction without noise.

    Source: "SynBench", Eq. 1.
    """

    shape: tuple[int, ...]
    direction: Direction
    s: float
    covariance: Covariance
    share: float = 0.5
    scale: float = 1.0
    clamp: bool = False
    centre: Direction | None = None

    def __post_init__(self) -> None:
        pixels = math.prod(self.shape)
        sizes = {len(self.direction), len(self.covariance.vectors), pixels if self.centre is None else len(self.centre)}
        if sizes != {pixels}:
            raise Mismatch(
                f"gaussian: expected direction, covariance and centre of {pixels} pixels, got {sorted(sizes)}"
            )
        if not (0 < self.s < math.inf and 0 < self.scale < math.inf):
            raise BadValue(f"gaussian: expected positive s and scale, got {self.s} and {self.scale}")
        if not 0 < self.covariance.mahalanobis(self.direction) < math.inf:
            raise BadValue(
                "gaussian: expected a direction along which images vary, got one along which they do not (a classifier "
                "would be perfect); take another direction, or shrink the covariance"
            )

    @cached_property
    def half(self) -> Direction:
        """Half the difference of the two means, μ, in units of the model, float64."""
        # Of Mahalanobis length s, so that Φ(s) is the best accuracy
        direction = self.direction.double()
        return direction * (self.s / self.covariance.mahalanobis(direction))

    def draw(self, signs: Num[Tensor, "images"], random: np.random.Generator) -> Float[Tensor, "images ..."]:
        """Draw one image for every class asked for, [N, *shape] in float32.

        Args:
            signs: y, ±1.
            random: where numbers come from, used in order: blocks of images draw what all would draw at once.
        """
        x = self.covariance.draw(len(signs), random)
        # The noise plus y μ: the outer product of classes and μ, added in place
        x.addr_(signs.float(), self.half.float()).mul_(self.scale)
        x += 0.5 if self.centre is None else self.centre
        return (x.clamp_(0, 1) if self.clamp else x).view(-1, *self.shape)

    def mixture(self, *, pixels: bool = False, whole: bool = False) -> GaussianClasses:
        """Return the mixture of the images that are not clamped: the optimum for every budget follows from it.

        Args:
            pixels: whether it is that of the images, whose radii are pixels; else that of the model, with scale 1.
            whole: whether all d directions are written out, [d, d]. For p = 2 it changes nothing. For other p it is
                needed unless the noise is isotropic: without, classifiers read what the columns show only.
        """
        # Lengths are scaled by `unit`, variances by its square
        unit = self.scale if pixels else 1.0
        centre = torch.full_like(self.half, 0.5) if self.centre is None else self.centre.double()
        half, rest = unit * self.half, unit**2 * self.covariance.rest
        values = unit**2 * self.covariance.values.double()
        vectors = self.covariance.vectors.double()
        # Isotropic: the coordinate axes serve, so that nothing of the size [d, d] is written out
        if len(values) == 0:
            return GaussianClasses(centre, None, torch.full_like(half, rest), half, self.share)
        if whole and rest > 0:
            # The first k columns of Q are V's up to signs; the others complete them, with the rest's variance alone
            vectors = torch.linalg.qr(torch.cat([vectors, torch.eye(len(half), dtype=torch.float64)], 1)).Q
            values = torch.cat([values, values.new_zeros(len(half) - len(values))])
        # Directions without variance are no part of F
        positive = values + rest > 0
        return build_mixture(vectors[:, positive], values[positive], rest, half, centre, self.share)


def ones(pixels: int) -> Direction:
    """Return the direction 1/√d, in which all pixels turn brighter; the paper's.

    Example:
        >>> ones(4)
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    return torch.full((pixels,), pixels**-0.5)


def random_direction(covariance: Covariance, random: np.random.Generator) -> Direction:
    """Draw a direction of length 1: uniform where noise is isotropic, else in the way in which the noise varies.

    Example:
        >>> from holdfast.numerics.gaussian_classes.covariance import isotropic
        >>> random_direction(isotropic(4), np.random.default_rng(0)).norm()
        tensor(1.)
    """
    direction = covariance.draw(1, random)[0]
    return direction / direction.norm()
