"""The nearest members of a bank by exact distances: few pairs are more than a number that a comparison drops."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.blocks import find_places
from holdfast.numerics.geometry.divergence import Divergence, LinearDivergence
from holdfast.numerics.geometry.pairwise import Bank, Queries, _again, _blocks, _bracket

ROWS, COLUMNS = 512, 4096
"""Queries and bank members of a block in float32: 8 MiB."""

_LARGE = 1e30
"""Scores from which on float32 may overflow."""


class _Best:
    """The nearest members of a bank so far, nearest first; where there are none yet, at the distance infinity.

    Attributes:
        distances: of each, [M, k].
        positions: where they stand in the bank, [M, k].
        scores: no more than what `nearest_of_many` compares of each, [M, k].
    """

    def __init__(self, queries: Queries, bank: Bank, k: int, divergence: Divergence):
        self._queries, self._bank, self._divergence = queries, bank, divergence
        self.distances = torch.full((len(queries), k), torch.inf, dtype=torch.float64)
        self.positions = torch.full((len(queries), k), len(bank))
        self.scores = torch.full((len(queries), k), -torch.inf)

    def add(self, i: int, j: int, candidates: Int[Tensor, "pairs 2"], scores: Tensor | None = None) -> None:
        """Take in (query, member) of the block that begins at (i, j), sorted, by their distances from the definition.

        None of these may be infinite.
        """
        found, row = candidates[:, 0].unique_consecutive(return_inverse=True)
        count, rows = row.bincount(), i + found
        k, width = self.distances.shape[1], int(count.max())
        column = k + torch.arange(len(row)) - (count.cumsum(0) - count)[row]
        again = _again(self._queries[i:], self._bank[j:], candidates, self._divergence)
        apart = torch.cat([distance for *_, distance in again])
        values = torch.nn.functional.pad(self.distances[rows], (0, width), value=torch.inf)
        values[row, column] = apart
        # a stable sort keeps the lower position first
        order = torch.sort(values, dim=1, stable=True).indices[:, :k]
        self.distances[rows] = values.gather(1, order)
        for kept, new in ((self.positions, j + candidates[:, 1]), (self.scores, scores)):
            if new is not None:
                both = torch.nn.functional.pad(kept[rows], (0, width))
                both[row, column] = new
                kept[rows] = both.gather(1, order)


def nearest(queries: Queries, bank: Bank, k: int, divergence: Divergence) -> Int[Tensor, "queries k"]:
    """Return the positions of the k bank members nearest to each query, nearest first (ties: lower position).

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> nearest(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [3.0]]), 2, L2()).tolist()
        [[1, 0]]
    """
    k, floor = min(k, len(bank)), divergence.floor(queries, bank)
    best = _Best(queries, bank, k, divergence)
    for i, j, block in _blocks(queries, bank, divergence.kernel):
        # candidates: not beyond the k-th best so far, of the first ones the k-th of the block; soon they are few
        limit = best.distances[i : i + block.shape[0], -1:]
        if not limit.isfinite().all() and block.shape[1] >= k:
            kth = block.topk(k, largest=False).values[:, -1:]
            limit = torch.minimum(limit, divergence.from_kernel(kth))
        candidates = find_places(block.numpy() <= _bracket(limit, divergence, floor)[1].numpy())
        # Few are left, and looked at again in float64
        if len(candidates):
            best.add(i, j, candidates)
    return best.positions


def nearest_of_many(
    queries: Queries,
    bank: Bank,
    k: int,
    divergence: Divergence,
    advance: Callable[[int], object] = lambda members: None,
) -> tuple[Int[Tensor, "queries k"], Float[Tensor, "queries k"]]:
    """Return what `nearest` does, and the distances, of a bank that may be a file of many: it is read once, in order.

    A divergence with linear scores is looked at in float32 first: score_q(b) - score_q(b_0), rounded by no more than
    2^-24 (D + 8) times the lengths that go into it, both ways. What this leaves is decided by the definition, so the
    answer is that of `nearest`.

    Args:
        queries: representations, [M, D].
        bank: of any type of numbers, also one that lies on disk, [N, D].
        k: how many.
        divergence: how they are compared.
        advance: told of how many further members have been looked at.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> nearest_of_many(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [3.0]]), 1, L2())[0].tolist()
        [[1]]
    """
    k = min(k, len(bank))
    if not isinstance(divergence, LinearDivergence):
        return _nearest_by_parts(queries, bank, k, divergence, advance)
    best = _Best(queries, bank, k, divergence)
    for j in range(0, len(bank), COLUMNS):
        # scores are told apart by that of one member, which stands in every block: last, since a product of 4,097
        # columns takes half as long again as one of 4,096
        members = torch.cat([bank[j : j + COLUMNS], bank[:1]]).float()
        scores = divergence.scores(members)
        rounding = 2.0**-22 * (members.shape[1] + 8)
        longest, largest = scores.weights.norm(dim=1).max(), scores.bias.abs().max()
        # Queries some at a time, so that a block stays in the cache
        for i in range(0, len(queries), ROWS):
            rows = slice(i, i + ROWS)
            around = queries[rows].float() - scores.middle
            slack = rounding * (around.norm(dim=1, keepdim=True) * longest + largest)
            # beyond what float32 holds
            if not float(slack.max()) < _LARGE:
                return _nearest_by_parts(queries, bank, k, divergence, advance)
            found = torch.addmm(scores.bias[:-1], around, scores.weights[:-1].T)
            first = torch.addmm(scores.bias[-1:], around, scores.weights[-1:].T)
            # The k-th best so far; of the first block the k-th of it
            limit = best.scores[rows, -1:]
            if not limit.isfinite().all() and found.shape[1] >= k:
                limit = torch.maximum(limit, found.topk(k).values[:, -1:] - first)
            # One pass over the block: what all of a row have in common is added to its limit
            candidates = find_places(found.numpy() >= (limit + first - slack).numpy())
            if len(candidates):
                row, column = candidates.unbind(1)
                best.add(i, j, candidates, found[row, column] - (first + slack)[row, 0])
        advance(len(members) - 1)
    return best.positions, best.distances


def _nearest_by_parts(
    queries: Queries, bank: Bank, k: int, divergence: Divergence, advance: Callable[[int], object]
) -> tuple[Int[Tensor, "queries k"], Float[Tensor, "queries k"]]:
    """Return the same in float64, some queries at a time."""
    parts: list[Tensor] = []
    for some in queries.split(ROWS):
        parts.append(nearest(some, bank, k, divergence))
        advance(len(bank) * len(some) // len(queries))
    positions = torch.cat(parts)
    apart = [divergence(queries.double(), bank[each].double()) for each in positions.T]
    return positions, torch.stack(apart, 1)
