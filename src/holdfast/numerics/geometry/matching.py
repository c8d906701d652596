"""A distance below which two images count as the same: as many different ones lie there as are allowed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d

from holdfast.numerics.geometry.pairwise import pairwise

ALIKE = 3 / 255
"""No cell of the thumbnails of one picture differs more, whatever JPEG or a resize did to it."""

LEAST = 10
"""Pairs that must be allowed below a threshold, for it to be estimated at all."""

ROWS, GROUPS = 256, 8
"""Images whose distances from all others are looked at together, and groups of cells that are compared first."""


@dataclass(frozen=True)
class Matches:
    """A threshold, what it was estimated from, and where distances lie beside it.

    Attributes:
        threshold: t; images nearer than that match. NaN where there is none.
        allowed: how many pairs of different images may match.
        pairs: how many there are.
        quantiles: for each distance, the share of these pairs at or below it; above the rate exactly where the distance
            does not match. NaN for NaN.
        near: for each image, the share of its own pairs that lie at or below the threshold, [N]. Where some images are
            in fewer pairs, what each contributes to the share of all pairs: θ + N / 2P Σ_j (1[d_ij <= t] - θ).
    """

    threshold: float
    allowed: int
    pairs: int
    quantiles: Float[Tensor, "*shape"]
    near: Float[Tensor, "bank"]


def matches(
    bank: Float[Tensor, "bank dim"],
    thumbnails: Float[Tensor, "bank cells"],
    distances: Float[Tensor, "*shape"],
    rate: float,
    name: str = "l2",
    labels: Int[Tensor, "bank"] | None = None,
) -> Matches:
    """Return the smallest distance that more than `rate` of the pairs of different images reach, and what lies where.

    t = min { d(b_i, b_j) : #{pairs at or below it} > rate · #pairs }; what is nearer matches. Pairs of images that look
    alike, see `look_alikes`, do not count. Both orders of a pair count where the divergence is not symmetric.

    Args:
        bank: clean representations, [N, D].
        thumbnails: of the same images, in [0, 1].
        distances: which are held against the threshold.
        rate: false positives, a share of the pairs.
        name: divergence.
        labels: the class of each image, where pairs of one class do not count either.

    Example:
        >>> bank = torch.tensor([[0.0], [1.0], [3.0], [7.0]])
        >>> result = matches(bank, bank, torch.tensor([2.5, 3.5]), rate=0.4)  # distances are 1, 2, 3, 4, 6 and 7
        >>> result.threshold, result.allowed, [round(share, 2) for share in result.quantiles.tolist()]
        (3.0, 2, [0.33, 0.5])
    """
    alike = look_alikes(thumbnails)
    blocks = partial(_blocks, bank, alike, name, labels)
    most = math.floor(rate * len(bank) * (len(bank) - 1)) + 1
    least, pairs = torch.empty(0, dtype=torch.float64), 0
    for _, apart in blocks():
        counted = apart[apart.isfinite()]
        pairs += len(counted)
        least = torch.cat([least, counted])
        least = least.topk(min(most, len(least)), largest=False).values
    allowed = math.floor(rate * pairs * (1 + 1e-12))
    limit = float(least[allowed]) if allowed < len(least) and least[allowed] > 0 else math.nan
    # where distances and images lie beside the others
    placed = ~distances.isnan()
    ordered, place = distances[placed].double().unique(return_inverse=True)
    below = torch.zeros(len(ordered) + 1, dtype=torch.long)
    inside, of = torch.zeros(2, len(bank), dtype=torch.long)
    for rows, apart in blocks():
        counted, match = apart.isfinite(), apart <= limit
        below += torch.searchsorted(ordered, apart[counted]).bincount(minlength=len(below))
        for total, some in ((inside, match), (of, counted)):
            total += some.sum(0)
            total[rows] += some.sum(1)
    quantiles = torch.full(distances.shape, torch.nan, dtype=torch.float64)
    quantiles[placed] = (below.cumsum(0)[:-1].double() / max(pairs, 1))[place]
    both_roles = max(int(of.sum()), 1)
    share = int(inside.sum()) / both_roles
    near = share + len(bank) / both_roles * (inside.double() - share * of.double())
    return Matches(limit, allowed, pairs, quantiles, near)


def matches_of_copies(
    copies: Float[Tensor, "edits images"], distances: Float[Tensor, "*shape"], level: float, population: int
) -> Matches:
    """Return the smallest distance that more than a share of copies reach from their originals, and what lies where.

    In `Matches` copies stand for pairs. An image has one role among copies, where `near` counts two: its excess is
    halved, and counts for all images that are not copied.

    Args:
        copies: how far each copy is from its original, [E, M].
        distances: which are held against the threshold.
        level: share of the copies that match.
        population: N, images of which the first M are copied.

    Example:
        >>> result = matches_of_copies(torch.tensor([[1.0, 2.0, 3.0, 9.0]]), torch.tensor([2.5, 9.0]), 0.75, 4)
        >>> result.threshold, result.allowed, result.quantiles.tolist()
        (9.0, 3, [0.5, 1.0])
    """
    ordered = copies.double().flatten().sort().values
    allowed = math.floor(level * len(ordered) * (1 + 1e-12))
    limit = float(ordered[allowed]) if allowed < len(ordered) and ordered[allowed] > 0 else math.nan
    own = (copies <= limit).double().mean(0)
    near = own.mean() + torch.zeros(population, dtype=torch.float64)
    near[: len(own)] += population / (2 * len(own)) * (own - own.mean())
    quantiles = torch.searchsorted(ordered, distances.double(), right=True).double() / len(ordered)
    return Matches(limit, allowed, len(ordered), quantiles.masked_fill(distances.isnan(), torch.nan), near)


def images_needed(rate: float) -> int:
    """Return how many images have pairs enough for a threshold at a rate: `LEAST` of them below it.

    Example:
        >>> images_needed(1e-3), images_needed(1e-4)
        (142, 448)
    """
    return math.ceil((1 + math.sqrt(1 + 8 * LEAST / rate)) / 2)


def look_alikes(thumbnails: Float[Tensor, "bank cells"]) -> Int[Tensor, "pairs 2"]:
    """Return the pairs (i, j), i < j, of images whose thumbnails differ by no more than 3/255 in any cell.

    Example:
        >>> look_alikes(torch.tensor([[0.1, 0.2], [0.5, 0.2], [0.11, 0.2]])).tolist()
        [[0, 2]]
    """
    # means of some cells differ no more than the cells: few pairs are looked at in full
    means = adaptive_avg_pool1d(thumbnails.double(), min(GROUPS, thumbnails.shape[1]))
    alike = []
    for rows in torch.arange(len(thumbnails)).split(ROWS):
        near = (pairwise(means[rows], means, "linf") <= ALIKE + 1e-6).triu(int(rows[0]) + 1).nonzero()
        pairs = torch.stack([rows[near[:, 0]], near[:, 1]], 1)
        for some in pairs.split(2**14):
            first, second = thumbnails[some].double().unbind(1)
            alike.append(some[(first - second).abs().amax(1) <= ALIKE + 1e-6])
    return torch.cat([torch.empty(0, 2, dtype=torch.long), *alike])


def _blocks(
    bank: Float[Tensor, "bank dim"], alike: Int[Tensor, "pairs 2"], name: str, labels: Int[Tensor, "bank"] | None
) -> Iterator[tuple[Int[Tensor, "rows"], Float[Tensor, "rows bank"]]]:
    """Yield (images, their distances from all others), infinite for pairs that do not count."""
    others = torch.arange(len(bank))
    for rows in others.split(ROWS):
        apart = pairwise(bank[rows], bank, name)
        counted = others > rows[:, None] if name != "kl" else others != rows[:, None]
        for first, second in (alike.T, alike.flip(1).T):
            here = (first >= rows[0]) & (first <= rows[-1])
            counted[first[here] - rows[0], second[here]] = False
        if labels is not None:
            counted &= labels[rows, None] != labels
        yield rows, apart.masked_fill(~counted, torch.inf)
