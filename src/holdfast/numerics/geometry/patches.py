"""Patches told apart by their tokens: whose a token is, and which segment of the image it belongs to."""

import warnings

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.runtime.errors import BadValue

ALIKE = 1e-3
"""Patches whose tokens are nearer to each other than this share of the mean distance are one and the same."""

RESTARTS = 4
"""Of k-means; the best is kept."""

Tokens = Float[Tensor, "*batch patches dim"]


def rivals(clean: Tokens) -> Bool[Tensor, "*batch patches patches"]:
    """Return which patches of an image can be taken for which others: those that are not alike.

    Patches of an even background have one token; to find one of them for another is no mistake.

    Example:
        >>> rivals(torch.tensor([[0.0], [0.0], [1.0]])).int().tolist()
        [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    """
    apart = torch.cdist(clean, clean, compute_mode="donot_use_mm_for_euclid_dist")
    return apart > ALIKE * apart.mean((-2, -1), keepdim=True)


def square_distances(a: Tokens, b: Float[Tensor, "*batch others dim"]) -> Float[Tensor, "*batch patches others"]:
    """Return ||a_i - b_j||² of all pairs, differentiable, by a matrix product around the mean of b.

    Example:
        >>> square_distances(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0], [3.0, 0.0]])).tolist()
        [[25.0, 0.0]]
    """
    # Around the mean, for squares of what all have in common would take digits away
    middle = b.mean(-2, keepdim=True)
    a, b = a - middle, b - middle
    return a.square().sum(-1)[..., None] + b.square().sum(-1)[..., None, :] - 2 * a @ b.mT


def segments(
    tokens: Float[Tensor, "patches dim"], count: int
) -> tuple[Float[Tensor, "segments dim"], Int[Tensor, "patches"]]:
    """Return the centres of so many segments of an image, by k-means, and the segment of each patch.

    An image of fewer different patches has fewer segments. Ties go to the lower segment.

    Args:
        tokens: of one image.
        count: how many.

    Raises:
        HoldfastError: fewer than two segments, or more than patches.

    Source: Lloyd's algorithm from k-means++ starts, scikit-learn's `KMeans`, seeded.

    Example:
        >>> centres, own = segments(torch.tensor([[0.0], [0.2], [5.0], [5.2]]), 2)
        >>> bool(own[0] == own[1]), bool(own[1] == own[2])
        (True, False)
    """
    if not 2 <= count <= len(tokens):
        raise BadValue(f"segments: expected from 2 to {len(tokens)} (the patches of an image), got {count}")
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    points = tokens.detach().double().cpu()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different patches than segments
        kmeans = KMeans(count, n_init=RESTARTS, random_state=0)  # pyright: ignore[reportArgumentType] its stub
        fitted = kmeans.fit(points.numpy())
    # Assigned anew: equal centres are one segment, and a tie goes to the lower one
    centres = torch.from_numpy(fitted.cluster_centers_).unique(dim=0)
    own = torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
    return centres.to(tokens), own.to(tokens.device)
