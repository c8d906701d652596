"""How many directions a set of representations uses: their singular values, effective rank and participation ratio."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.statistics.jackknife import Contributions
from holdfast.runtime.errors import NotEnough, NotFinite

Reps = Float[Tensor, "images dim"]

_VALUES = 2**20
"""Numbers of representations that are in memory in float64 (8 MiB); more are summed part by part."""

_ROWS = 4096
"""Images whose shares are in memory at once."""


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
    return _decompose(reps, centred)[0]


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
    values, shares = _decompose(reps, centred)
    # 0 log 0 is 0, where singular values are rounding
    p = values / values.sum()
    logs = p.log().where(p > 0, 0.0)
    entropy = -(p * logs).sum()
    return entropy.exp() - 0.5 * entropy.exp() * shares(p * (logs + entropy))


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
    values, shares = _decompose(reps, centred)
    # Relative to the largest, so that squares of squares neither overflow nor vanish
    eigenvalues = (values / values[0]).square()
    total, squares = eigenvalues.sum(), eigenvalues.square().sum()
    ratio = total.square() / squares
    return ratio + 2 * ratio * shares(eigenvalues / total - eigenvalues.square() / squares)


def _decompose(
    reps: Reps, centred: bool
) -> tuple[Float[Tensor, "values"], Callable[[Float[Tensor, "values"]], Float[Tensor, "images"]]]:
    """Return singular values, largest first, and the product of a vector with N U²: each image's share of them."""
    n, dim = reps.shape
    if n < 2:
        raise NotEnough(f"spectrum: expected at least 2 representations, got {n}")
    # in float64 some rows at a time: of very many images each copy counts
    parts = reps.detach().split(n if dim > n else max(1, _VALUES // dim))
    mean, largest, size = torch.zeros(dim, dtype=torch.float64), 0.0, 0.0
    for part in parts:
        if not math.isfinite(extent := _extent(part)):
            raise NotFinite("spectrum: expected finite representations, got NaN or infinite ones")
        mean, largest = mean + part.to("cpu", torch.float64).sum(0), max(largest, extent)
    mean = mean / n if centred else torch.zeros_like(mean)
    for part in parts:
        size = max(size, _extent(part.to("cpu", torch.float64, copy=True).sub_(mean)))
    if size <= (1e-12 * largest if centred else 0.0):
        size = 0.0  # all alike, but for rounding

    def centre_and_scale(part: Reps) -> Float[Tensor, "rows dim"]:
        """Return some rows centred, with entries of at most 1."""
        rows = part.to("cpu", torch.float64, copy=True)
        return rows.sub_(mean).div_(size) if size else rows.zero_()

    def gram_of(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "side side"]:
        return rows.T @ rows if dim <= n else rows @ rows.T

    # eigenvalues of the smaller Gram matrix
    gram = torch.zeros(min(n, dim), min(n, dim), dtype=torch.float64)
    for part in parts:
        gram += gram_of(centre_and_scale(part))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    eigenvalues, vectors = eigenvalues.flip(0), vectors.flip(1)
    # what rounding may have made is no direction
    real = eigenvalues > max(n, dim) * 2.0**-52 * eigenvalues[0]

    def shares_in(matrix: Float[Tensor, "rows dim"], of: Float[Tensor, "values"]) -> Float[Tensor, "rows"]:
        # N U²: U = X V / σ from the eigenvectors V of XᵀX; those of XXᵀ are U itself
        squares = (
            (rows @ vectors).square_().div_(eigenvalues) if dim <= n else vectors.square()
            for rows in matrix.split(_ROWS if dim <= n else n)
        )
        return torch.cat([each.mul_(n).masked_fill_(~real, 0.0) @ of for each in squares])

    def shares(of: Float[Tensor, "values"]) -> Float[Tensor, "images"]:
        return torch.cat([shares_in(centre_and_scale(part), of) for part in parts])

    return size * eigenvalues.where(real, 0.0).sqrt(), shares


def _extent(values: Tensor) -> float:
    """Return the largest absolute value; NaN where there is one."""
    low, high = (float(end) for end in values.aminmax())
    return max(-low, high)
