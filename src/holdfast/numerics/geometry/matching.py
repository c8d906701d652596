"""A distance below which two images count as the same: as many different ones lie there as are allowed."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d

from holdfast.numerics.geometry import pairwise
from holdfast.numerics.geometry.between import Between
from holdfast.numerics.geometry.circle import Circle, Places
from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.statistics.least import Least

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
    divergence: Divergence,
    labels: Int[Tensor, "bank"] | None = None,
    circle: Circle | None = None,
) -> Matches:
    """Return the smallest distance that more than `rate` of the pairs of different images reach, and what lies where.

    t = min { d(b_i, b_j) : #{pairs at or below it} > rate · #pairs }; what is nearer matches. Pairs of images that look
    alike, see `look_alikes`, do not count. Both orders of a pair count where the divergence is not symmetric.

    Args:
        bank: clean representations, [N, D].
        thumbnails: of the same images, in [0, 1].
        distances: which are held against the threshold.
        rate: false positives, a share of the pairs.
        divergence: how representations are compared.
        labels: the class of each image, where pairs of one class do not count either.
        circle: which pairs are compared; None: all.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [3.0], [7.0]])  # distances are 1, 2, 3, 4, 6 and 7
        >>> result = matches(bank, bank, torch.tensor([2.5, 3.5]), rate=0.4, divergence=L2())
        >>> result.threshold, result.allowed, [round(share, 2) for share in result.quantiles.tolist()]
        (3.0, 2, [0.33, 0.5])
    """
    means = _means(thumbnails)
    alike: list[Int[Tensor, "pairs 2"]] = []  # of each block, so that thumbnails are compared once

    def blocks() -> Iterator[tuple[Places, Places, Tensor, Tensor]]:
        """Yield (images, others, their distances, infinite where a pair does not count, which pairs count)."""
        for number, (rows, columns, apart, pairs) in enumerate(pairwise.iterate_pairs(bank, divergence, circle)):
            # The second pass over the pairs finds what the first one compared
            if number == len(alike):
                near = torch.cdist(means[rows], means[columns], p=torch.inf) <= ALIKE + 1e-6
                alike.append(_confirm_pairs(thumbnails[rows], thumbnails[columns], near.nonzero()))
            # [rows, columns]: neither look-alikes nor, with labels, images of one class count
            counted = torch.ones_like(apart, dtype=torch.bool) if pairs is None else pairs
            counted[alike[number][:, 0], alike[number][:, 1]] = False
            if labels is not None:
                counted = counted & (labels[rows, None] != labels[columns])
            yield rows, columns, apart.masked_fill_(~counted, torch.inf), counted

    # the smallest distances, and how many pairs each image is in
    most = len(bank) * (len(bank) - 1 if circle is None else 2 * circle.reach) / (2 if divergence.symmetric else 1)
    # The threshold is the smallest distance above the allowed ones, so no more than these and it are kept
    least, of = Least(math.floor(rate * most) + 2), torch.zeros(len(bank), dtype=torch.long)
    for rows, columns, apart, counted in blocks():
        least.add(apart)
        of[rows] += counted.sum(1)
        of[columns] += counted.sum(0)
    pairs = int(of.sum()) // 2  # each counted for both of its images
    # A product that is a whole number may be rounded to just below it
    allowed, smallest = math.floor(rate * pairs * (1 + 1e-12)), least.values()
    # Nothing is nearer than 0, so a threshold of 0 would be none, unless distances may be below
    beyond = -math.inf if divergence.signed else 0.0
    limit = float(smallest[allowed]) if allowed < len(smallest) and smallest[allowed] > beyond else math.nan

    # where distances and images lie beside the others
    placed = ~distances.isnan()
    ordered, place = distances[placed].double().unique(return_inverse=True)
    below, inside = torch.zeros(len(ordered) + 1, dtype=torch.long), torch.zeros(len(bank), dtype=torch.long)
    between = Between(ordered, ordered, ordered)
    for rows, columns, apart, _ in blocks():
        # Infinite distances, of pairs that do not count, lie behind all values
        below += between(apart.flatten())[0].bincount(minlength=len(below))
        match = apart <= limit
        inside[rows] += match.sum(1)
        inside[columns] += match.sum(0)
    quantiles = torch.full(distances.shape, torch.nan, dtype=torch.float64)
    quantiles[placed] = (below.cumsum(0)[:-1].double() / max(pairs, 1))[place]
    share = int(inside.sum()) / max(2 * pairs, 1)
    # With θ = `share`: 2 (near - θ) / N is an image's influence on the share of all pairs
    near = share + len(bank) / max(2 * pairs, 1) * (inside.double() - share * of.double())
    return Matches(limit, allowed, pairs, quantiles, near)


def matches_of_copies(
    copies: Float[Tensor, "edits images"],
    distances: Float[Tensor, "*shape"],
    level: float,
    population: int,
    signed: bool = False,
) -> Matches:
    """Return the smallest distance that more than a share of copies reach from their originals, and what lies where.

    In `Matches` copies stand for pairs. An image has one role among copies, where `near` counts two: its excess is
    halved, and counts for all images that are not copied.

    Args:
        copies: how far each copy is from its original, [E, M].
        distances: which are held against the threshold.
        level: share of the copies that match.
        population: N, images of which the first M are copied.
        signed: whether distances may be below 0.

    Example:
        >>> result = matches_of_copies(torch.tensor([[1.0, 2.0, 3.0, 9.0]]), torch.tensor([2.5, 9.0]), 0.75, 4)
        >>> result.threshold, result.allowed, result.quantiles.tolist()
        (9.0, 3, [0.5, 1.0])
    """
    ordered = copies.double().flatten().sort().values
    allowed = math.floor(level * len(ordered) * (1 + 1e-12))
    limit = float(ordered[allowed]) if allowed < len(ordered) and (signed or ordered[allowed] > 0) else math.nan
    own = (copies <= limit).double().mean(0)
    near = own.mean() + torch.zeros(population, dtype=torch.float64)
    # Images beyond the copied ones have no influence
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
    means, alike = _means(thumbnails), []
    for rows in torch.arange(len(thumbnails)).split(ROWS):
        # Pairs i < j: the block's first row is image rows[0]
        near = (torch.cdist(means[rows], means, p=torch.inf) <= ALIKE + 1e-6).triu(int(rows[0]) + 1).nonzero()
        alike.append(_confirm_pairs(thumbnails[rows], thumbnails, near) + torch.tensor([int(rows[0]), 0]))
    return torch.cat([torch.empty(0, 2, dtype=torch.long), *alike])


def _means(thumbnails: Float[Tensor, "bank cells"]) -> Float[Tensor, "bank groups"]:
    """Return means of some cells, which differ no more than the cells: few pairs are looked at in full."""
    return adaptive_avg_pool1d(thumbnails.double(), min(GROUPS, thumbnails.shape[1]))


def _confirm_pairs(
    first: Float[Tensor, "rows cells"], second: Float[Tensor, "columns cells"], near: Int[Tensor, "pairs 2"]
) -> Int[Tensor, "alike 2"]:
    """Return the pairs whose thumbnails differ by no more than 3/255 in any cell, among those whose means are near."""
    alike = [
        some[(first[some[:, 0]].double() - second[some[:, 1]].double()).abs().amax(1) <= ALIKE + 1e-6]
        for some in near.split(2**14)
    ]
    return torch.cat([near[:0], *alike])
