"""Points with many coordinates brought onto a few axes, for pictures: principal components and t-SNE."""

from importlib import import_module
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

PERPLEXITY = 30
INPUTS = 32
"""Principal components that t-SNE starts from."""


class Plane(NamedTuple):
    """Points on their first two principal components.

    Attributes:
        points: [N, 2], in the units of the points.
        origin: where zero lies on the plane, [2].
        explained: share of the variance along each axis, [2]; 0 where all points are equal.
    """

    points: Float[Tensor, "points 2"]
    origin: Float[Tensor, "2"]
    explained: Float[Tensor, "2"]


def axes(points: Float[Tensor, "points features"], count: int) -> Float[Tensor, "axes features"]:
    """Return the first right singular vectors, at most `count`; of each, the largest entry is positive.

    Example:
        >>> axes(torch.tensor([[-2.0, 0.0], [1.0, 0.0]]), 1).tolist()
        [[1.0, 0.0]]
    """
    vectors = torch.linalg.svd(points.double(), full_matrices=False).Vh[:count]
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    return vectors * torch.where(largest < 0, -1.0, 1.0)  # a singular vector is only known up to its sign


def plane(points: Float[Tensor, "points features"]) -> Plane:
    """Return points on the two axes along which they vary most.

    Example:
        >>> plane(torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]])).explained.tolist()
        [1.0, 0.0]
    """
    points = points.double()
    mean = points.mean(0)
    around, total = points - mean, (points - mean).square().sum()
    base = points.new_zeros(2, points.shape[1])
    components = axes(around, 2)
    base[: len(components)] = components  # fewer than two points, or one feature: the other axis is empty
    explained = (around @ base.T).square().sum(0) / total.clamp_min(torch.finfo(total.dtype).tiny)
    return Plane(around @ base.T, -mean @ base.T, explained)


def neighbourhoods(points: Float[Tensor, "points features"], seed: int) -> Float[Tensor, "points 2"] | None:
    """Return points by t-SNE, from a start at their principal components; None where too few of them differ.

    Example:
        >>> neighbourhoods(torch.ones(20, 3), seed=0) is None  # nothing to tell apart
        True
    """
    different = len(points.unique(dim=0))
    if different < 8:  # of equal points the start would be NaN, on which t-SNE ends the process
        return None
    # Slow to import, and most audits learn no noise; a type checker would infer all types of scikit-learn
    manifold: Any = import_module("sklearn.manifold")

    points = points.double()
    around = points - points.mean(0)
    reduced = around @ axes(around, INPUTS).T
    reduced = reduced / reduced[:, 0].std()  # in float32 the squares of what is tiny are 0
    start = 1e-4 * reduced[:, :2]
    if start.shape[1] < 2:
        start = torch.cat([start, torch.zeros_like(start)], 1)
    tsne = manifold.TSNE(
        perplexity=min(PERPLEXITY, (len(points) - 1) / 3),
        init=start.float().numpy(),
        random_state=seed % 2**32,
        max_iter=500,
    )
    return torch.from_numpy(tsne.fit_transform(reduced.float().numpy())).double()
