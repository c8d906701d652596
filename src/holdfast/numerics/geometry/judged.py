"""How much of what is judged relevant a search returns first: the scores of a retrieval task, exactly."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.pairwise import pairwise
from holdfast.numerics.geometry.relevance import Relevance

TIE, FLOOR = 1e-9, 1e-12
"""Share of a distance, and distance, by which two must differ to be told apart."""

ENTRIES = 2**20
"""Distances that are sorted at a time."""

PerQuery = Float[Tensor, "queries"]


class Judged(NamedTuple):
    """Scores of each query; NaN where nothing is relevant.

    Attributes:
        rank: of the first relevant result, [M].
        recall: share of what is relevant among the first k, for each k, [K, M].
        precision: average precision of the first k, for each k, [K, M].
        ndcg: normalised discounted cumulative gain of the first k, for each k, [K, M].
    """

    rank: PerQuery
    recall: Float[Tensor, "cuts queries"]
    precision: Float[Tensor, "cuts queries"]
    ndcg: Float[Tensor, "cuts queries"]


def score_retrieval(
    queries: Float[Tensor, "queries dim"],
    bank: Float[Tensor, "bank dim"],
    relevance: Relevance,
    cuts: Sequence[int],
    divergence: Divergence,
) -> Judged:
    """Return the scores of the first images of a retrieval task, as queries of its index.

    DCG@k = Σ_{r<=k} g_r / log2(r + 1), with the grade g_r of the r-th result; nDCG@k is its share of that of the best
    order. recall@k = 1/R Σ_{r<=k} 1[g_r > 0] over R relevant images, and the average precision of the first k is
    1/R Σ_{r<=k} 1[g_r > 0] #{s <= r: g_s > 0} / r, trec_eval's map_cut. Results at equal distances are in no order:
    each score is the mean over all orders, and the rank the mean rank of the first relevant one.

    Args:
        queries: representations of the first images, disturbed or not, [M, D].
        bank: clean representations of all images, [N, D].
        relevance: which of these are relevant to which.
        cuts: the values of k.
        divergence: how representations are compared.

    Source: Järvelin & Kekäläinen (2002), "Cumulated gain-based evaluation of IR techniques", with the grade itself as
    gain, as in trec_eval and MTEB; McSherry & Najork (2008), "Computing information retrieval performance measures
    efficiently in the presence of tied scores".

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        >>> task = Relevance(torch.tensor([True, False, False, False]), torch.tensor([[0, 2]]), torch.tensor([1]), 3)
        >>> scores = score_retrieval(bank[:1], bank, task, cuts=[1, 2], divergence=L2())
        >>> scores.rank.tolist(), scores.recall.tolist(), [round(float(value), 4) for value in scores.ndcg]
        ([2.0], [[0.0], [1.0]], [0.0, 0.6309])
    """
    discounts = 1 / torch.arange(2, max(cuts) + 2, dtype=torch.float64).log2()
    gained = torch.cat([discounts.new_zeros(1), discounts.cumsum(0)])  # by the first 0, 1, 2, ... places
    inverses = torch.cat([discounts.new_zeros(1), (1 / torch.arange(1, len(gained)).double()).cumsum(0)])  # Σ 1/r
    parts = [
        _scores(queries[rows], bank, relevance.grade_images(rows), gained, inverses, cuts, divergence)
        for rows in torch.arange(len(queries)).split(max(1, ENTRIES // len(bank)))
    ]
    return Judged(*(torch.cat(columns, -1) for columns in zip(*parts, strict=True)))


def _scores(
    queries: Tensor,
    bank: Tensor,
    grades: Int[Tensor, "queries bank"],
    gained: Float[Tensor, "places"],
    inverses: Float[Tensor, "places"],
    cuts: Sequence[int],
    divergence: Divergence,
) -> Judged:
    """Return the scores of some queries."""
    apart = pairwise(queries, bank, divergence).masked_fill(grades < 0, torch.inf)
    floor = max(FLOOR, divergence.floor(queries, bank))
    index = apart.sort(1).values
    # what is relevant, nearest first, and the places that it shares with all that is as near: begin < place <= end
    count = (grades > 0).sum(1)
    near, which = apart.masked_fill(grades <= 0, torch.inf).topk(max(1, int(count.max())), dim=1, largest=False)
    gain = grades.gather(1, which).clamp_min(0).double()
    begin = torch.searchsorted(index, near - TIE * near.abs() - floor)
    end = torch.searchsorted(index, near + TIE * near.abs() + floor, right=True)
    shared, relevant = (end - begin).clamp_min(1).double(), gain > 0

    # the first one, among as many that are as near
    first = relevant & (near <= near[:, :1] + TIE * near[:, :1].abs() + floor)
    rank = begin[:, 0] + (shared[:, 0] + 1.0) / (first.sum(1) + 1.0)
    # at the j-th of the places that it shares, `before` + 1 + `beside` (j - 1) are relevant up to there, on average
    before = torch.searchsorted(near, near - TIE * near.abs() - floor)
    alike = torch.searchsorted(near, near + TIE * near.abs() + floor, right=True) - before
    beside = (alike - 1) / (shared - 1).clamp_min(1)
    recall, precision, ndcg = [], [], []
    # Which part of the places that it shares lies within the first k, and the sum of 1/r over that part
    for k in cuts:
        low, high = begin.clamp_max(k), end.clamp_max(k)
        inside, inverse = (high - low) / shared, (inverses[high] - inverses[low]) / shared
        recall.append((inside * relevant).sum(1) / count)
        precisions = (before + 1) * inverse + beside * (inside - (begin + 1) * inverse)
        precision.append((precisions * relevant).sum(1) / count)
        own = (gained[high] - gained[low]) / shared
        best = gain.sort(1, descending=True).values[:, :k] @ gained.diff()[: min(k, gain.shape[1])]
        ndcg.append((own * gain).sum(1) / best)
    columns = (torch.stack(column) for column in (recall, precision, ndcg))
    return Judged(rank.masked_fill(count == 0, torch.nan), *columns)
