"""How early a search returns what is wanted: average precision and the rank of the first relevant one, exactly."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.pairwise import pairwise

TIE = 1e-9
"""Share of two distances by which they must differ to be told apart."""

ENTRIES = 2**20
"""Distances that are sorted at a time."""

Queries = Float[Tensor, "queries dim"]
Bank = Float[Tensor, "bank dim"]


class Results(NamedTuple):
    """What a search returns for some queries, nearest first.

    Attributes:
        order: positions in the bank, without the query's own.
        relevant: which of them are of its class.
        begin: where the run of equal distances begins in which each stands.
        end: where it ends.
        hits: how many are relevant up to that end.
    """

    order: Int[Tensor, "queries results"]
    relevant: Bool[Tensor, "queries results"]
    begin: Int[Tensor, "queries results"]
    end: Int[Tensor, "queries results"]
    hits: Int[Tensor, "queries results"]


def rank_queries(
    queries: Queries, bank: Bank, own: Int[Tensor, "queries"], labels: Int[Tensor, "bank"], divergence: Divergence
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
        divergence: how representations are compared.

    Returns:
        Rank and average precision in float64, [M]; NaN where the bank has no other image of the class.

    Source: Philbin et al. (2007), "Object retrieval with large vocabularies and fast spatial matching", for mean
    average precision; ties as in scikit-learn's `average_precision_score`.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank, labels = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 0])
        >>> rank, precision = rank_queries(torch.tensor([[0.9]]), bank, torch.tensor([0]), labels, L2())
        >>> rank.tolist(), [round(p, 4) for p in precision.tolist()]  # in order: 1, 2 and 3
        ([2.0], [0.5833])
    """
    ranks, precisions = [], []
    for results in _results(queries, bank, own, labels, divergence):
        count = results.relevant.sum(1)
        # argmax is the first of the largest, here the first relevant one; ties give it the first of
        # their places
        first = results.begin.gather(1, results.relevant.int().argmax(1, keepdim=True)).squeeze(1)
        ranks.append((first + 1.0).double().masked_fill(count == 0, torch.nan))
        # Precision where each run of ties ends
        share = results.hits.double() / (results.end + 1.0)
        precisions.append((share * results.relevant).sum(1) / count)
    return torch.cat(ranks), torch.cat(precisions)


def without(
    queries: Queries, bank: Bank, own: Int[Tensor, "queries"], labels: Int[Tensor, "bank"], divergence: Divergence
) -> Float[Tensor, "bank"]:
    """Return by how much the mean average precision changes where a bank member is taken out of the index.

    Behind an irrelevant image every relevant one moves up, Σ_r h_r / (p_r - 1) - h_r / p_r over those with place p_r
    and h_r hits; with a relevant one, a hit is lost too, and one of the R. Queries with a single relevant image are as
    if nothing changed.

    Args:
        queries: as of `rank_queries`.
        bank: as of `rank_queries`.
        own: as of `rank_queries`.
        labels: as of `rank_queries`.
        divergence: how representations are compared.

    Returns:
        Σ_i (AP_i without b_j - AP_i) / M over the M queries that have a precision, [N]; up to equal distances.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank, labels = torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 0, 0])
        >>> changes = without(torch.tensor([[0.9]]), bank, torch.tensor([0]), labels, L2())
        >>> [round(change, 4) for change in changes.tolist()]
        [0.0, 0.4167, -0.0833, -0.0833]
    """
    changes, queried = torch.zeros(len(bank), dtype=torch.float64), 0
    for results in _results(queries, bank, own, labels, divergence):
        count, place, hits = results.relevant.sum(1, keepdim=True).double(), results.end + 1.0, results.hits.double()
        now = hits / place * results.relevant
        precision = now.sum(1, keepdim=True) / count
        # what all relevant ones from a place on have, where one of those before them is gone
        up = hits / (place - 1).clamp_min(1) * results.relevant - now
        fewer = (hits - 1) / (place - 1).clamp_min(1) * results.relevant - now
        behind, lost = (values.flip(1).cumsum(1).flip(1) for values in (up, fewer))
        # A relevant one goes with its own share, and all behind it have a hit less, a place earlier
        out = (precision * count + lost - fewer - now) / (count - 1).clamp_min(1)
        change = torch.where(results.relevant, out - precision, behind / count)
        some = count.squeeze(1) > 1
        queried += int((count > 0).sum())
        changes.index_add_(0, results.order[some].flatten(), change[some].flatten())
    return changes / max(queried, 1)


def first_without(
    queries: Queries, bank: Bank, own: Int[Tensor, "queries"], divergence: Divergence
) -> Float[Tensor, "bank"]:
    """Return by how much the mean of 1 / rank of the queries' own members changes where another is taken out.

    Σ_i [b_j nearer to q_i than its own] (1 / (rank_i - 1) - 1 / rank_i) / M, with rank_i = 1 + how many are nearer.

    Args:
        queries: as of `rank_queries`.
        bank: as of `rank_queries`.
        own: as of `rank_queries`.
        divergence: how representations are compared.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [5.0]])
        >>> first_without(torch.tensor([[0.9]]), bank, torch.tensor([0]), L2()).tolist()
        [0.0, 0.5, 0.0]
    """
    changes = torch.zeros(len(bank), dtype=torch.float64)
    # Where numbers of both signs are compared, those close to 0 are rounded as the others are
    least = divergence.floor(queries, bank) if divergence.signed else 0.0
    for rows in torch.arange(len(queries)).split(max(1, ENTRIES // len(bank))):
        apart = pairwise(queries[rows], bank, divergence)
        limit = apart.gather(1, own[rows, None])
        nearer = (apart < limit - TIE * limit.abs() - least).double()
        rank = 1 + nearer.sum(1, keepdim=True)
        # 1 / (rank - 1) - 1 / rank
        changes += (nearer / (rank * (rank - 1).clamp_min(1))).sum(0)
    return changes / len(queries)


def _results(
    queries: Queries, bank: Bank, own: Int[Tensor, "queries"], labels: Int[Tensor, "bank"], divergence: Divergence
) -> Iterator[Results]:
    """Yield what is returned, for some queries at a time."""
    # Where numbers of both signs are compared, those close to 0 are rounded as the others are
    least = divergence.floor(queries, bank) if divergence.signed else 0.0
    for rows in torch.arange(len(queries)).split(max(1, ENTRIES // len(bank))):
        # nearest first, without the query's own image
        apart = pairwise(queries[rows], bank, divergence)
        apart[torch.arange(len(rows)), own[rows]] = torch.inf
        apart, order = apart.sort(1)
        apart, order = apart[:, :-1], order[:, :-1]
        relevant = labels[order] == labels[own[rows], None]
        # where each run of equal distances begins and ends
        place, width = torch.arange(apart.shape[1]).expand_as(apart), apart.shape[1]
        # Each run begins where the distance rises: the last beginning so far, and from behind the first end
        rises = apart.diff(dim=1) > TIE * apart[:, 1:].abs() + least
        edge = torch.ones(len(apart), 1, dtype=torch.bool)
        begin = place.masked_fill(~torch.cat([edge, rises], 1), 0).cummax(1).values
        end = place.masked_fill(~torch.cat([rises, edge], 1), width).flip(1).cummin(1).values.flip(1)
        yield Results(order, relevant, begin, end, relevant.cumsum(1).gather(1, end))
