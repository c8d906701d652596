"""Exact comparisons of all pairs of representations, block by block, in bounded memory.

Euclidean distances come from one matrix product per block in float64; the few entries whose order rounding could
change are computed again from the definition, so comparisons and ties are those of brute force.
"""

import math
from collections.abc import Callable, Hashable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.numerics.geometry.between import Between
from holdfast.numerics.geometry.blocks import Side, find_places, rows_in_memory
from holdfast.numerics.geometry.cache import Remembered, content
from holdfast.numerics.geometry.circle import SIDE as AROUND
from holdfast.numerics.geometry.circle import Circle, Places
from holdfast.numerics.geometry.divergence import Divergence

Bank = Float[Tensor, "bank dim"]
Queries = Float[Tensor, "queries dim"]

SIDE = 512
"""Columns of a block of all pairs at most."""

MANY = 8
"""Limits from which on one pass for all of them is faster than one for each."""

_SLACK = 1e-9  # relative rounding of a distance from the matrix product, generously
_CLOSER: Remembered[tuple[Tensor, Tensor]] = Remembered(16)
_PLACED: Remembered[tuple[Tensor, Tensor]] = Remembered(4)  # values in order, and the share of pairs below each


def _blocks(a: Tensor, bank: Tensor, divergence: Divergence) -> Iterator[tuple[int, int, Tensor]]:
    """Yield (row offset, column offset, distances) over all pairs."""
    # All blocks are taken around one member, so that a distance does not depend on its block
    side = _sides(bank, divergence)
    step = min(SIDE, rows_in_memory(bank.shape[1]))  # bank rows at a time
    for j in range(0, len(bank), step):
        # A block of the bank stays in the cache while all rows pass
        columns = side(bank[j : j + step])
        # Rows of distances, or of the representations themselves if these are wider
        rows = rows_in_memory(max(len(columns.reps), a.shape[1]))
        for i in range(0, len(a), rows):
            yield i, j, divergence.block(side(a[i : i + rows]), columns)


def _sides(bank: Tensor, divergence: Divergence) -> Callable[[Tensor], Side]:
    """Return what makes the sides of the blocks of a bank."""
    origin = divergence.embed(bank[:1].double())
    return lambda reps: Side(divergence.embed(reps.double()), origin)


def _doubtful(close: np.ndarray, block: Tensor, divergence: Divergence, floor: float) -> Int[Tensor, "pairs 2"]:
    """Places of `close` distances that must be computed again; zero is exact already, but for a `floor`."""
    if divergence.exact:
        return torch.empty(0, 2, dtype=torch.long)
    found = find_places(close)
    return found if floor else found[block[found[:, 0], found[:, 1]] > 0]


def _bracket(limit: Tensor, divergence: Divergence, floor: float) -> tuple[Tensor, Tensor]:
    """Return between which numbers of a block of the kernel the true distance may lie on either side of a limit."""
    if divergence.exact:
        return divergence.to_kernel(limit), divergence.to_kernel(limit)
    # Of a limit below 0 the smaller number is the farther one from 0; products, for an infinite one stays infinite
    slack = 4 * _SLACK * limit.sign()
    return divergence.to_kernel(limit * (1 - slack) - floor), divergence.to_kernel(limit * (1 + slack) + floor)


def _again(
    a: Tensor, b: Tensor, pairs: Int[Tensor, "pairs 2"], divergence: Divergence
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield (row, column, d(a_row, b_column) from the definition) for the pairs given, some at a time."""
    for part in pairs.split(rows_in_memory(b.shape[1])):
        row, column = part[:, 0], part[:, 1]
        yield row, column, divergence(a[row].double(), b[column].double())


def pairwise(a: Queries, bank: Bank, divergence: Divergence) -> Float[Tensor, "queries bank"]:
    """Return all d(a_i, bank_j) in float64; for small cases, the others here never hold the whole matrix.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> pairwise(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]), L2()).tolist()
        [[5.0, 0.0]]
    """
    result = torch.empty(len(a), len(bank), dtype=torch.float64)
    for i, j, block in _blocks(a, bank, divergence):
        result[i : i + block.shape[0], j : j + block.shape[1]] = block
    return result


def closer(
    queries: Queries, bank: Bank, own: Int[Tensor, "queries"], divergence: Divergence
) -> tuple[Int[Tensor, "queries"], Int[Tensor, "bank"]]:
    """Count bank members strictly nearer to a query than the query's own bank member.

    Args:
        queries: representations of disturbed images, [M, D].
        bank: clean representations, [N, D].
        own: position in the bank of each query's own clean image, [M].
        divergence: how they are compared.

    Returns:
        How many others are nearer to each query, #{j != own_i : d(q_i, b_j) < d(q_i, b_own_i)}, [M]; and how
        often each bank member is such a nearer one, [N].

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [5.0]])
        >>> by_query, by_member = closer(torch.tensor([[0.9]]), bank, torch.tensor([0]), L2())
        >>> by_query.tolist(), by_member.tolist()
        ([1], [0, 1, 0])
    """
    question = (content(queries), content(bank), content(own), divergence)
    if counted := _CLOSER.get(question):  # several measures count the same
        return counted[0].clone(), counted[1].clone()
    # A query's distance from its own image; (1) and (4) of "Robustness of unsupervised representation
    # learning without labels" count what is strictly below it
    reference = divergence(queries.double(), bank[own].double())
    floor = divergence.floor(queries, bank)
    by_query = torch.zeros(len(queries), dtype=torch.long)
    by_member = torch.zeros(len(bank), dtype=torch.long)
    for i, j, block in _blocks(queries, bank, divergence.kernel):
        # nearer than the own image; too close to call is decided by the definition
        rows = slice(i, i + block.shape[0])
        limit = reference[rows, None]
        low, high = _bracket(limit, divergence, floor)
        distances = block.numpy()
        below = distances < low.numpy()
        doubtful = _doubtful(below ^ (distances <= high.numpy()), block, divergence, floor)
        nearer = torch.from_numpy(below)
        for row, column, distance in _again(queries[rows], bank[j : j + block.shape[1]], doubtful, divergence):
            nearer[row, column] = distance < limit[row, 0]
        # the own image is no other; tally by query and by bank member
        _leave_out(nearer, own[rows], j)
        by_query[rows] += nearer.sum(1, dtype=torch.int32)
        by_member[j : j + block.shape[1]] += nearer.sum(0, dtype=torch.int32)
    _CLOSER.put(question, (by_query, by_member))
    return by_query.clone(), by_member.clone()


def _leave_out(block: Bool[Tensor, "rows columns"], own: Int[Tensor, "rows"], offset: int) -> None:
    inside = (own >= offset) & (own < offset + block.shape[1])
    block[inside.nonzero().squeeze(1), own[inside] - offset] = False


def share_below(
    bank: Bank, values: Float[Tensor, "*shape"], divergence: Divergence, circle: Circle | None = None
) -> Float[Tensor, "*shape"]:
    """Return the exact empirical distribution function of bank pairs at `values`.

    F(v) = #{i < j : d(b_i, b_j) <= v} / (N (N - 1) / 2), over *all* pairs, or those of a circle. Of a
    divergence that is not symmetric both orders of a pair count.

    Args:
        bank: clean representations, [N, D], N >= 2.
        values: divergences to place, any shape; NaN stays NaN.
        divergence: how they are compared.
        circle: which pairs are compared; None: all.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> bank = torch.tensor([[0.0], [1.0], [3.0]])
        >>> share_below(bank, torch.tensor([0.5, 1.0, 2.5]), L2()).tolist()
        [0.0, 0.3333333333333333, 0.6666666666666666]
    """
    placed = ~values.isnan()  # among sorted numbers NaN would mislead the binary search
    # Each value is placed once, however many images have it
    different, inverse = torch.unique(values[placed].double(), return_inverse=True)
    question = (content(bank), divergence, None if circle is None else (content(circle.order), circle.reach))
    shares = _recall_shares(question, different)
    if shares is None:
        shares = _shares_below(bank, different, divergence, circle)
        _PLACED.put(question, (different, shares))
    quantiles = torch.full(values.shape, torch.nan, dtype=torch.float64, device=values.device)
    quantiles[placed] = shares[inverse]
    return quantiles


def _recall_shares(question: Hashable, different: Float[Tensor, "values"]) -> Float[Tensor, "values"] | None:
    """Return the shares below values that were all placed before, among others; None where one was not."""
    if (placed := _PLACED.get(question)) is None or not len(placed[0]):
        return None
    # A place that holds another number tells that this one was not placed before
    places = torch.searchsorted(placed[0], different).clamp_max(len(placed[0]) - 1)
    return placed[1][places] if torch.equal(placed[0][places], different) else None


def _shares_below(
    bank: Bank, different: Float[Tensor, "values"], divergence: Divergence, circle: Circle | None
) -> Float[Tensor, "values"]:
    """Return the shares of pairs at or below different values in rising order."""
    counts = torch.zeros(len(different) + 1, dtype=torch.long)
    for _, _, _, index in _rank_pairs(bank, different, divergence, circle):
        counts += index.bincount(minlength=len(counts))
    # The k-th count is of pairs between the values k - 1 and k, so sums up to k are of pairs at or
    # below value k
    return counts.cumsum(0)[:-1].double() / (len(bank) * _of_each(bank, divergence, circle) / 2)


def _rank_pairs(
    bank: Bank, different: Float[Tensor, "values"], divergence: Divergence, circle: Circle | None
) -> Iterator[tuple[Int[Tensor, "rows"], Int[Tensor, "columns"], Int[Tensor, "pairs"], Int[Tensor, "pairs"]]]:
    """Yield (images, others, places in the block of their pairs, how many different values lie below each) by blocks.

    Distances beyond all values are left out; those that are close to one are computed again from the definition.
    """
    # Distances are compared as the kernel has them, squared
    floor = divergence.floor(bank, bank)
    between, every = (
        Between(divergence.to_kernel(different), *_bracket(different, divergence, floor)),
        torch.arange(len(bank)),
    )
    for rows, columns, block, pairs in iterate_pairs(bank, divergence.kernel, circle):
        if pairs is not None:
            block.masked_fill_(~pairs, torch.nan)  # which is below nothing
        images, others, distances = every[rows], every[columns], block.flatten()
        # Few are near enough to matter, where values lie low among the distances
        places = torch.from_numpy(np.flatnonzero(distances.numpy() <= between.most))
        apart = distances[places]
        index, close = between(apart)
        if divergence.exact:
            close = close[:0]
        elif not floor:  # zero is exact
            close = close[apart[close] > 0]
        for part in close.split(rows_in_memory(bank.shape[1])):
            pair = images[places[part] // len(others)], others[places[part] % len(others)]
            distance = divergence(bank[pair[0]].double(), bank[pair[1]].double())
            index[part] = torch.searchsorted(different, distance)
        yield images, others, places, index


def _of_each(bank: Bank, divergence: Divergence, circle: Circle | None) -> int:
    """In how many pairs each image is; both orders count where they differ."""
    return (len(bank) - 1 if circle is None else 2 * circle.reach) * (1 if divergence.symmetric else 2)


def near(
    bank: Bank, limits: Float[Tensor, "limits"], divergence: Divergence, circle: Circle | None = None
) -> Float[Tensor, "bank limits"]:
    """Share of the pairs with each bank member that lie at or below each limit, exactly.

    u_i(v) = #{j != i : d(b_i, b_j) <= v} / (N - 1), whose mean over i is `share_below`; in a circle j is one of the
    others that i is compared with. Of a divergence that is not symmetric both orders of a pair count, half
    each.

    Args:
        bank: clean representations, [N, D], N >= 2.
        limits: divergences, [L]; NaN has NaN.
        divergence: how they are compared.
        circle: which pairs are compared; None: all.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> near(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([1.0]), L2()).tolist()
        [[0.5], [0.5], [0.0]]
    """
    bounds = limits.double()
    counts = (_near_many if len(bounds) >= MANY else _near_each)(bank, bounds, divergence, circle)
    return (counts.double() / _of_each(bank, divergence, circle)).masked_fill(bounds.isnan(), torch.nan)


def _near_many(
    bank: Bank, bounds: Float[Tensor, "limits"], divergence: Divergence, circle: Circle | None
) -> Int[Tensor, "bank limits"]:
    """Return how many pairs of each bank member lie at or below each limit: all limits in one go through the pairs."""
    different = bounds[~bounds.isnan()].unique()
    cells = len(different) + 1
    counts = torch.zeros(len(bank), cells, dtype=torch.long)
    for images, others, places, index in _rank_pairs(bank, different, divergence, circle):
        row, column = places // len(others), places % len(others)
        for members, place in ((images, row), (others, column)):
            # One histogram for all members of the block, by the number of (member, cell); a
            # pair counts for both of its images
            counts[members] += (place * cells + index).bincount(minlength=len(members) * cells).view(-1, cells)
    # NaN has a column too, which the caller masks
    return counts.cumsum(1)[:, torch.searchsorted(different, bounds).clamp_max(cells - 1)]


def _near_each(
    bank: Bank, bounds: Float[Tensor, "limits"], divergence: Divergence, circle: Circle | None
) -> Int[Tensor, "bank limits"]:
    """Return the same, limit by limit, which is faster for a few."""
    floor = divergence.floor(bank, bank)
    low, high = _bracket(bounds, divergence, floor)
    counts = torch.zeros(len(bank), len(bounds), dtype=torch.long)
    for rows, columns, block, pairs in iterate_pairs(bank, divergence.kernel, circle):
        if pairs is not None:
            block.masked_fill_(~pairs, torch.nan)  # which is below nothing
        images, others, distances = bank[rows], bank[columns], block.numpy()
        for number, limit in enumerate(bounds):
            below = distances <= float(low[number])
            doubtful = _doubtful(below ^ (distances <= float(high[number])), block, divergence, floor)
            inside = torch.from_numpy(below)
            for row, column, distance in _again(images, others, doubtful, divergence):
                inside[row, column] = distance <= limit
            # No image is twice among the rows or among the columns, so += loses none
            counts[rows, number] += inside.sum(1, dtype=torch.int32)
            counts[columns, number] += inside.sum(0, dtype=torch.int32)
    return counts


def quantile(bank: Bank, share: float, divergence: Divergence) -> float:
    """Return the smallest divergence of a pair that is at least as large as `share` of all pairs' divergences.

    Args:
        bank: clean representations, [N, D], N >= 2; all pairs are held at once, so a few thousand at most.
        share: in (0, 1).
        divergence: how they are compared; both orders of a pair count where it is not symmetric.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> quantile(torch.tensor([[0.0], [1.0], [3.0]]), 0.5, L2())
        2.0
    """
    # Each pair is there in both orders, which changes no quantile of a symmetric divergence
    distances = pairwise(bank.cpu(), bank.cpu(), divergence)
    values = distances[~torch.eye(len(bank), dtype=torch.bool)].sort().values
    return float(values[math.ceil(share * len(values)) - 1])


def iterate_pairs(
    bank: Tensor, divergence: Divergence, circle: Circle | None = None
) -> Iterator[tuple[Places, Places, Float[Tensor, "rows columns"], Bool[Tensor, "rows columns"] | None]]:
    """Yield (images, others, distances, which count or None for all), each pair once; in both orders if asymmetric.

    Args:
        bank: clean representations, [N, D].
        divergence: how they are compared.
        circle: which pairs are compared; None: all.

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> reps = torch.tensor([[0.0], [2.0]])
        >>> [(apart.tolist(), pairs.tolist()) for _, _, apart, pairs in iterate_pairs(reps, L2())]
        [([[0.0, 2.0], [2.0, 0.0]], [[False, True], [False, False]])]
    """
    if circle is not None:
        side = _sides(bank, divergence)
        for rows, columns, pairs in circle.blocks(min(rows_in_memory(bank.shape[1]), AROUND)):
            images, others = side(bank[rows]), side(bank[columns])
            yield rows, columns, divergence.block(images, others), pairs
            # The other order of the same pairs
            if not divergence.symmetric:
                yield columns, rows, divergence.block(others, images), None if pairs is None else pairs.T
        return
    places = torch.arange(len(bank))
    for i, j, block in _upper_blocks(bank, divergence) if divergence.symmetric else _blocks(bank, bank, divergence):
        rows, columns = slice(i, i + block.shape[0]), slice(j, j + block.shape[1])
        if not divergence.symmetric:
            yield rows, columns, block, places[rows, None] != places[columns]
        else:  # the diagonal may pass through this block
            yield rows, columns, block, places[rows, None] < places[columns] if rows.stop > j else None


def _upper_blocks(bank: Tensor, divergence: Divergence) -> Iterator[tuple[int, int, Tensor]]:
    """Yield blocks that together hold every pair i < j (and little more)."""
    side = _sides(bank, divergence)
    step = min(SIDE, rows_in_memory(bank.shape[1]))
    for j in range(0, len(bank), step):
        last = min(j + step, len(bank))
        columns = side(bank[j:last])
        # Rows up to those of the column block, whose own block holds the diagonal
        for i in range(0, last, step):
            yield i, j, divergence.block(side(bank[i : min(i + step, last)]), columns)
