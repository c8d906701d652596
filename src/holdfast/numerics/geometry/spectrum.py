"""How many directions a set of representations uses: their singular values, effective rank and participation ratio."""

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import HoldfastError
from holdfast.numerics.statistics.jackknife import Contributions

Reps = Float[Tensor, "images dim"]


def spectrum(reps: Reps, centred: bool = True) -> Float[Tensor, "values"]:
    """Return the singular values of the representations, largest first, [min(N, D)], in float64.

    √ of the eigenvalues of the smaller Gram matrix; below √(max(N, D) · 2⁻⁵²) of the largest they are rounding and 0.

    Args:
        reps: representations, [N, D].
        centred: take the mean representation away first, so that a common offset is no direction.

    Raises:
        HoldfastError: fewer than two images, or representations that are not finite.

    Example:
        >>> [round(v, 6) for v in spectrum(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), centred=False).tolist()]
        [4.0, 3.0]
    """
    return _decomposed(reps, centred)[0]


def effective_rank(reps: Reps, centred: bool = True) -> Contributions:
    """Contribution of each image to the effective rank: directions in use, from 1 to D.

    exp(H) with H = -Σ p_k log p_k and p = σ / Σσ: D equal singular values give D. An image's influence is that of its
    weight in the covariance matrix, -½ exp(H) Σ_k p_k (log p_k + H) N U_ik² with U the left singular vectors, so
    the interval takes no second decomposition. It is about the spread of the estimate; the estimate itself is too low
    where images are few, since random vectors are never quite orthogonal: by about (D+1) / (8N) of itself where all
    directions are alike. NaN where all representations are equal.

    Args:
        reps: representations, [N, D]; N well above D.
        centred: as in `spectrum`; the matrix of Roy & Vetterli is not.

    Raises:
        HoldfastError: fewer than two images, or representations that are not finite.

    Source: Roy & Vetterli (2007), "The effective rank"; Garrido et al. (2023), "RankMe".

    Example:
        >>> round(effective_rank(torch.eye(4), centred=False).mean().item(), 6)
        4.0
    """
    values, weights = _decomposed(reps, centred)
    p = values / values.sum()
    logs = p.log().where(p > 0, 0.0)
    entropy = -(p * logs).sum()
    return entropy.exp() - 0.5 * entropy.exp() * (weights @ (p * (logs + entropy)))


def participation_ratio(reps: Reps, centred: bool = True) -> Contributions:
    """Contribution of each image to the participation ratio (Σλ)² / Σλ² of the covariance's eigenvalues.

    Like `effective_rank`, but ruled by the largest directions. An image's influence is
    2 PR Σ_k (λ_k / Σλ - λ_k² / Σλ²) N U_ik². Too low by about (PR+1) / N of itself for N images.

    Args:
        reps: representations, [N, D].
        centred: as in `spectrum`.

    Raises:
        HoldfastError: fewer than two images, or representations that are not finite.

    Source: Gao et al. (2017), "A theory of multineuronal dimensionality, dynamics and measurement".

    Example:
        >>> round(participation_ratio(torch.eye(4), centred=False).mean().item(), 6)
        4.0
    """
    values, weights = _decomposed(reps, centred)
    eigenvalues = (values / values[0]).square()
    total, squares = eigenvalues.sum(), eigenvalues.square().sum()
    ratio = total.square() / squares
    return ratio + 2 * ratio * (weights @ (eigenvalues / total - eigenvalues.square() / squares))


def _decomposed(reps: Reps, centred: bool) -> tuple[Float[Tensor, "values"], Float[Tensor, "images values"]]:
    """Return singular values, largest first, and N U²: how many times its share each image has of them."""
    n, dim = reps.shape
    if n < 2:
        raise HoldfastError(f"spectrum: expected at least 2 representations, got {n}")
    if not bool(reps.isfinite().all()):
        raise HoldfastError("spectrum: expected finite representations, got NaN or infinite ones")
    # in place: of very many images each copy counts
    matrix = reps.detach().to("cpu", torch.float64, copy=True)
    rounding = 1e-12 * float(matrix.abs().max()) if centred else 0.0
    if centred:
        matrix -= matrix.mean(0)
    size = float(matrix.abs().max())
    if size > rounding:
        matrix /= size
    else:
        matrix, size = matrix.zero_(), 0.0
    # eigenvalues of the smaller Gram matrix, of a matrix scaled to entries of at most 1
    gram = matrix.T @ matrix if dim <= n else matrix @ matrix.T
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues, vectors = eigenvalues.flip(0), vectors.flip(1)
    # what rounding may have made is no direction
    real = eigenvalues > max(n, dim) * 2.0**-52 * eigenvalues[0]
    squares = (matrix @ vectors).square_().div_(eigenvalues) if dim <= n else vectors.square()
    weights = squares.mul_(n).masked_fill_(~real, 0.0)
    return size * eigenvalues.where(real, 0.0).sqrt(), weights
