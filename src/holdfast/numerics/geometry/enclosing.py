"""Balls that hold a given number of some points: a small one, and what no such ball can be smaller than."""

import torch
from jaxtyping import Float
from torch import Tensor

Points = Float[Tensor, "points dim"]

BLOCK_BYTES = 64 * 2**20
"""Memory that one block of distances between points may take."""
STEPS = 50


def small_ball(points: Points, count: int) -> tuple[Float[Tensor, "dim"], Float[Tensor, ""], Float[Tensor, ""]]:
    """Return centre c and radius r of a small ball with `count` of the points, and l <= the least radius of any such.

    The search: from the mean, and from the point whose `count`-th smallest distance to the points is least, go to the
    mean of the nearest `count` points, again and again; the smallest ball on the way is the result. Its radius is at
    most 2 l, for it is no larger than that of the best point.

    The bound l, with k = `count`, is the larger one of two. Let S be k points in a ball of radius ρ.
    Each has all of S within 2 ρ, so ρ >= ½ min_i (k-th smallest distance of i). And
    ρ² >= 1/k Σ_S ||y_i - centre||² >= 1/k Σ_S ||y_i - mean||² = 1/(2k²) Σ_{i,j in S} ||y_i - y_j||², in which the sum
    over j is at least T_i, that of the k smallest squared distances of i to all points, and the sum over i at least
    that of the k smallest T_i. The second is close to the truth in many dimensions, the first in one.

    Args:
        points: in any float type; what is computed is float64.
        count: k, from 1 to the number of points.

    Example:
        >>> centre, radius, least = small_ball(torch.tensor([[0.0], [2.0], [4.0], [90.0]]), 3)
        >>> centre.item(), radius.item(), round(least.item(), 3)
        (2.0, 2.0, 1.633)
    """
    points = points.double()
    middle = points.mean(0)
    points = points - middle  # squares of distances then lose few digits
    # k-th smallest distance of every point, and T; ties beyond the k-th do not count
    rows = max(1, BLOCK_BYTES // (points.element_size() * len(points)))
    reaches, sums = [], []
    for part in points.split(rows):
        distances = torch.cdist(part, points)
        reach = distances.kthvalue(count, 1, keepdim=True).values
        nearer = distances < reach
        inner = distances.where(nearer, 0.0).square().sum(1)
        reaches.append(reach[:, 0])
        sums.append(inner + (count - nearer.sum(1)) * reach[:, 0].square())
    reach, total = torch.cat(reaches), torch.cat(sums)
    spread = total.sort().values[:count].sum().sqrt() / (2**0.5 * count)
    least = torch.maximum(reach.min() / 2, spread) * (1 - 1e-9)
    # the search for a centre
    centre, radius = points[int(reach.argmin())], reach.min()
    for start in (torch.zeros_like(centre), centre):
        place = start
        for _ in range(STEPS):
            lengths = torch.linalg.vector_norm(points - place, dim=1)
            own = lengths.kthvalue(count).values
            if own < radius:
                centre, radius = place, own
            nearest = points[lengths <= own].mean(0)
            if torch.equal(nearest, place):
                break
            place = nearest
    return centre + middle, radius, least
