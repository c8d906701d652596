"""The nearest members of a bank by exact distances: few pairs are more than a number that a comparison drops."""

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.numerics.geometry.blocks import find_places
from holdfast.numerics.geometry.divergence import Divergence
from holdfast.numerics.geometry.pairwise import Bank, Queries, _again, _blocks, _bracket


def nearest(queries: Queries, bank: Bank, k: int, divergence: Divergence) -> Int[Tensor, "queries k"]:
    """Return the positions of the k bank members nearest to each query, nearest first (ties: lower position).

    Example:
        >>> from holdfast.parts.divergences.l2 import L2
        >>> nearest(torch.tensor([[0.9]]), torch.tensor([[0.0], [1.0], [3.0]]), 2, L2()).tolist()
        [[1, 0]]
    """
    k, floor = min(k, len(bank)), divergence.floor(queries, bank)
    best = torch.full((len(queries), k), torch.inf, dtype=torch.float64)
    positions = torch.full((len(queries), k), len(bank))
    for i, j, block in _blocks(queries, bank, divergence.kernel):
        # candidates: not beyond the k-th best so far, of the first ones the k-th of the block; soon they are few
        limit = best[i : i + block.shape[0], -1:]
        if not limit.isfinite().all() and block.shape[1] >= k:
            kth = block.topk(k, largest=False).values[:, -1:]
            limit = torch.minimum(limit, divergence.from_kernel(kth))
        candidates = find_places(block.numpy() <= _bracket(limit, divergence, floor)[1].numpy())
        if not len(candidates):
            continue
        # their distances from the definition, behind the best so far of their query; none has the distance inf
        found, row = candidates[:, 0].unique_consecutive(return_inverse=True)
        count = row.bincount()
        column = k + torch.arange(len(row)) - (count.cumsum(0) - count)[row]
        rows, width = i + found, k + int(count.max())
        values = torch.cat([best[rows], torch.full((len(rows), width - k), torch.inf)], 1)
        indices = torch.cat([positions[rows], torch.full((len(rows), width - k), len(bank))], 1)
        indices[row, column] = j + candidates[:, 1]
        values[row, column] = torch.cat(
            [distance for *_, distance in _again(queries[i:], bank[j:], candidates, divergence)]
        )
        # a stable sort keeps the lower position first
        order = torch.sort(values, dim=1, stable=True).indices[:, :k]
        best[rows], positions[rows] = values.gather(1, order), indices.gather(1, order)
    return positions
