"""The shape of a set of representations: how evenly they cover the sphere, and how far classes are apart.

Everything is in float64 and exact over all pairs; memory is a block of similarities, whatever the number of images.
Functions return what each image contributes (see `contributions.py`); the mean of it is the quantity.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.circle import SIDE, Circle
from holdfast.numerics.geometry.directions import cosine, unit
from holdfast.numerics.statistics.jackknife import Contributions, of_function, of_pairs
from holdfast.runtime.errors import BadValue, NotEnough, NotFinite

Reps = Float[Tensor, "images dim"]
Labels = Int[Tensor, "images"]

BLOCK_BYTES = 64 * 2**20
"""Memory that one block of similarities may take."""


def uniformity(reps: Reps, circle: Circle | None = None) -> Contributions:
    """Contribution of each image to the uniformity of the representations on the unit sphere.

    U = -log E exp(-2 ||z - z'||²) over all pairs of different images, z = f(x) / ||f(x)||. 0 where all directions are
    equal, 4 where all are orthogonal, 4 - log ₀F₁(D/2, 4) where they are uniform (3.51 for D = 16); the more uniform,
    the larger. Pairs of an image with itself are left out: with them e^-U would be
    ((N-1) e^-U + 1) / N, whatever the encoder. A zero vector counts as orthogonal to all, as in `directions.cosine`.

    Args:
        reps: representations, [N, D]; of fewer than 3 images contributions are NaN.
        circle: which pairs are compared; None: all.

    Raises:
        HoldfastError: representations that are not finite.

    Source: Wang & Isola (2020), with the sign of Zhong et al. (2022).

    Example:
        >>> round(uniformity(torch.eye(4)).mean().item(), 6)
        4.0
    """
    near = potentials(reps, circle)
    n = len(near)
    if n < 3:
        return torch.full_like(near, torch.nan)
    # The mean over all pairs without image i, which is in 2 (n - 1) of the n (n - 1) ordered pairs
    without = (n * near.mean() - 2 * near) / (n - 2)
    return of_function(-float(near.mean().log()), -without.log())


def potentials(reps: Reps, circle: Circle | None = None) -> Contributions:
    """Return each image's mean of exp(-2 ||z_i - z_j||²) = exp(4 (z_i · z_j - 1)) over the others; NaN where alone.

    Args:
        reps: representations, [N, D].
        circle: with which others; None: all.

    Example:
        >>> [round(v, 6) for v in potentials(torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])).tolist()]
        [0.500168, 0.500168, 0.000335]
    """
    directions = unit(_finite(reps))
    n = len(directions)
    if circle is not None:
        total = torch.zeros(n, dtype=torch.float64)
        # Each pair once; it counts for both of its images
        for images, others, pairs in circle.blocks(SIDE):
            potential = (4 * (directions[images] @ directions[others].T - 1)).exp_()
            potential = potential if pairs is None else potential.mul_(pairs)
            total[images] += potential.sum(1)
            total[others] += potential.sum(0)
        return total / (2 * circle.reach)
    rows = max(1, BLOCK_BYTES // (8 * n))
    total = [(4 * (part @ directions.T - 1)).exp_().sum(1) for part in directions.split(rows)]
    # What each image has with itself; not always 1, as a zero vector has no length 1
    own = (4 * (directions.square().sum(1) - 1)).exp()
    return (torch.cat(total) - own) / (n - 1)


def alignment(first: Reps, second: Reps, alpha: float = 2.0) -> Contributions:
    """Return ||z - z'||^α of the unit vectors of two views of each image; their mean is the alignment, 0 the best.

    Args:
        first: representations of one view, [N, D].
        second: of the other view, [N, D]. A zero vector counts as orthogonal, as in `directions.cosine`.
        alpha: α > 0.

    Raises:
        HoldfastError: α that is not above 0, or representations that are not finite.

    Source: Wang & Isola (2020).

    Example:
        >>> alignment(torch.eye(2), torch.tensor([[1.0, 0.0], [1.0, 0.0]])).tolist()
        [0.0, 2.0]
    """
    if alpha <= 0:
        raise BadValue(f"alignment: expected alpha > 0, got {alpha}; 2 is usual")
    # ||z - z'||² is twice the cosine distance of unit vectors
    return (2 * cosine(_finite(first), _finite(second))).pow(alpha / 2)


def within(reps: Reps, labels: Labels) -> Contributions:
    """Contribution of each image to the mean squared distance within its class, E ||a - b||² over its pairs a ≠ b.

    2n/(n-1) (E||a||² - ||m||²) leaves out the pairs of an image with itself, and so does not depend on the class's
    size. NaN for images of a class with fewer than 3 images. `contributions.over_classes` averages the classes. In
    squared units of the representation: give unit vectors to compare encoders.

    Source: Zhong et al. (2022), "feature distance".

    Example:
        >>> within(torch.tensor([[0.0], [1.0], [2.0]]), torch.zeros(3, dtype=torch.long)).mean().item()
        2.0
    """

    def of_class(part: Reps) -> Contributions:
        # Σ_j ||a_i - a_j||² = n s_i + Σ s_j, with squares s around the mean: no pair is looked at
        squares = (part - part.mean(0)).square().sum(1)
        return of_pairs((len(part) * squares + squares.sum()) / max(len(part) - 1, 1))

    return _by_class(of_class, reps, labels)


def between(reps: Reps, labels: Labels) -> Contributions:
    """Contribution of each image to the mean squared distance of its class from the others.

    G_c + 2 (g_i - G_c), g_i the mean over other classes of the mean squared distance to their images, G_c its class's
    mean: twice, because an image is near other classes' images and they near it. `contributions.over_classes` averages
    the classes, and so gives the mean of E ||a - b||² over all ordered pairs of classes.

    Args:
        reps: representations, [N, D].
        labels: the class of each, [N].

    Raises:
        HoldfastError: one class only, or representations that are not finite.

    Example:
        >>> between(torch.tensor([[0.0], [2.0], [10.0]]), torch.tensor([0, 0, 1])).tolist()
        [118.0, 46.0, 82.0]
    """
    reps, number, sizes, means, squares = _moments(reps, labels)
    rivals = len(sizes) - 1
    if rivals < 1:
        raise NotEnough("distances between classes: expected two classes or more, got one; use images of more classes")
    # mean and mean square of the other classes' images, from class moments alone
    mean = (means.sum(0) - means) / rivals
    square = (squares.sum() - squares) / rivals
    # The mean of ||a - b||² over the images b of others: ||a||² - 2 a·E[b] + E||b||²
    own = reps.square().sum(1) - 2 * (reps * mean[number]).sum(1) + square[number]
    centre = torch.zeros(len(sizes), dtype=torch.float64).index_add_(0, number, own) / sizes
    return 2 * own - centre[number]


def _finite(reps: Reps) -> Reps:
    if not bool(reps.isfinite().all()):
        raise NotFinite("feature space: expected finite representations, got NaN or infinite ones")
    return reps.detach().cpu().double()


def _by_class(function: Callable[[Tensor], Tensor], reps: Reps, labels: Labels) -> Contributions:
    """Return a function's contributions of every class, computed among its images alone."""
    reps = _finite(reps)
    result = torch.full((len(reps),), torch.nan, dtype=torch.float64)
    for label in labels.unique():
        result[labels == label] = function(reps[labels == label])
    return result


def _moments(reps: Reps, labels: Labels) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return centred representations, numbers and sizes of their classes, class means and mean squared lengths."""
    reps = _finite(reps)
    reps = reps - reps.mean(0)  # cancellation shrinks
    classes, number = labels.unique(return_inverse=True)
    sizes = number.bincount().double()
    means = torch.zeros(len(classes), reps.shape[1], dtype=torch.float64).index_add_(0, number, reps) / sizes[:, None]
    squares = torch.zeros(len(classes), dtype=torch.float64).index_add_(0, number, reps.square().sum(1)) / sizes
    return reps, number, sizes, means, squares
