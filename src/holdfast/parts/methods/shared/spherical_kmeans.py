"""Spherical k-means: clusters of unit vectors around unit centroids."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 2**14


def spherical_kmeans(
    points: Float[Tensor, "n dim"], clusters: int, generator: torch.Generator, iterations: int = 10
) -> tuple[Float[Tensor, "clusters dim"], Int[Tensor, "n"]]:
    """Return centroids and the nearest one of every point: c_k <- Σ z / ‖Σ z‖ over the points z nearest to c_k.

    A centroid without points stays where it is. The same points and generator give the same result.

    Args:
        points: unit vectors.
        clusters: how many, at most as many as points; centroids begin at that many different points.
        generator: draws these.
        iterations: how often centroids move.

    Source: Caron et al. (2020), on DeepCluster-v2.
    """
    first = torch.randperm(len(points), generator=generator)[:clusters]
    centroids, on_cpu = points[first.to(points.device)], points.cpu()
    for _ in range(iterations):
        nearest = _nearest(points, centroids).cpu()
        # sums are taken on the CPU, where their order is always the same
        sums = torch.zeros(clusters, points.shape[1], dtype=points.dtype).index_add_(0, nearest, on_cpu)
        # 0 / ||0|| is no direction
        empty = torch.bincount(nearest, minlength=clusters).eq(0).to(points.device)
        centroids = torch.where(empty[:, None], centroids, F.normalize(sums.to(points), dim=1))
    return centroids, _nearest(points, centroids)


def _nearest(points: Float[Tensor, "n dim"], centroids: Float[Tensor, "clusters dim"]) -> Int[Tensor, "n"]:
    # Of unit vectors the largest product is the nearest; parts, for n x clusters products are too many
    return torch.cat([(part @ centroids.T).argmax(1) for part in points.split(CHUNK)])
