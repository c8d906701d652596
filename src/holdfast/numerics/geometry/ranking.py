"""How early a search returns what is wanted: average precision and the rank of the first relevant one, exactly."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.pairwise import pairwise

TIE = 1e-9
"""Share of two distances by which they must differ to be told apart."""

ENTRIES = 2**20
"""Distances that are sorted at a time."""


def ranked(
    queries: Float[Tensor, "queries dim"],
    bank: Float[Tensor, "bank dim"],
    own: Int[Tensor, "queries"],
    labels: Int[Tensor, "bank"],
    name: str = "l2",
) -> tuple[Float[Tensor, "queries"], Float[Tensor, "queries"]]:
    """Return how early each query finds the images of its class among all others.

    rank = 1 + #{j : d_j < d of the nearest of its class}. Average precision: 1/R Σ_r P(d_r) over the R images of its
    class, where P(d) is the share of its class among all that are as near as d. The query's own bank member is not in
    the index. Equal distances have one place: the first one for the rank, as in `pairwise.closer`, and the last one for
    the average precision, which in a bank of equals is the class's share.

    Args:
        queries: representations of disturbed images, [M, D].
        bank: clean representations, [N, D].
        own: position in the bank of each query's own clean image, [M].
        labels: the class of every bank member, [N].
        name: divergence.

    Returns:
        Rank and average precision in float64, [M]; NaN where the bank has no other image of the class.

    Source: Philbin et al. (2007), "Object retrieval with large vocabularies and fast spatial matching", for mean
    average precision; ties as in scikit-learn's `average_precision_score`.

    Example:
        >>> bank, labels = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 0])
        >>> rank, precision = ranked(torch.tensor([[0.9]]), bank, torch.tensor([0]), labels)
        >>> rank.tolist(), [round(p, 4) for p in precision.tolist()]  # in order: 1, 2 and 3
        ([2.0], [0.5833])
    """
    parts = torch.arange(len(queries)).split(max(1, ENTRIES // len(bank)))
    both = [_ranked(pairwise(queries[rows], bank, name), own[rows], labels) for rows in parts]
    rank, precision = zip(*both, strict=True)
    return torch.cat(rank), torch.cat(precision)


def _ranked(
    apart: Float[Tensor, "queries bank"], own: Int[Tensor, "queries"], labels: Int[Tensor, "bank"]
) -> tuple[Float[Tensor, "queries"], Float[Tensor, "queries"]]:
    # nearest first, without the query's own image
    apart[torch.arange(len(own)), own] = torch.inf
    apart, order = apart.sort(1)
    apart, order = apart[:, :-1], order[:, :-1]
    relevant = labels[order] == labels[own, None]
    count = relevant.sum(1)
    # where each run of equal distances begins and ends
    place, width = torch.arange(apart.shape[1]).expand_as(apart), apart.shape[1]
    rises = apart.diff(dim=1) > TIE * apart[:, 1:]
    edge = torch.ones(len(apart), 1, dtype=torch.bool)
    begin = place.masked_fill(~torch.cat([edge, rises], 1), 0).cummax(1).values
    end = place.masked_fill(~torch.cat([rises, edge], 1), width).flip(1).cummin(1).values.flip(1)
    # what is relevant so far, at each relevant one
    rank = begin.gather(1, relevant.int().argmax(1, keepdim=True)).squeeze(1) + 1.0
    hits = relevant.cumsum(1).gather(1, end) / (end + 1.0)
    precision = (hits.double() * relevant).sum(1) / count
    return rank.double().masked_fill(count == 0, torch.nan), precision
