"""The nearest members of a bank that need not be in memory: exact, a little more than one matrix product.

Similarities are computed block by block. What is not above the k-th best so far is dropped by one comparison, so that
only a few hundred of them per query are ever sorted.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.numerics.geometry.directions import unit
from holdfast.runtime.errors import BadValue, Mismatch, NotEnough, NotFinite

ROWS, COLUMNS = 512, 4096
"""Queries and bank members of one block of similarities: 8 MiB, read again while the cache still holds it."""

_LAST = 2**32 - 1
_NONE = torch.iinfo(torch.int64).min

Queries = Float[Tensor, "queries dim"]
Keys = Int[Tensor, "queries _"]


def top(
    queries: Queries, bank: Iterable[Tensor], k: int
) -> tuple[Float[Tensor, "queries k"], Int[Tensor, "queries k"]]:
    """Return the cosines to the k bank members most similar to each query, and where they stand, most similar first.

    cos(q, b) = q · b / (|q| |b|) in float32. Among equal cosines the lower position comes first. The chunks are put
    together anew in blocks of a fixed size, so the answer does not depend on how the bank is cut. Cosines that differ
    by rounding (about 1e-7) are ordered by it.

    Memory: queries in float32, k keys for each, one chunk, and a few blocks of ROWS x COLUMNS.

    Args:
        queries: representations, [Q, D].
        bank: representations in chunks [n, D], on any device; read once, in order.
        k: how many; fewer are returned where the bank has fewer.

    Returns:
        Cosines, [Q, min(k, N)], and positions in the bank, [Q, min(k, N)].

    Raises:
        HoldfastError: k below 1, an empty bank, another dimension, or representations that are not finite.

    Example:
        >>> cosines, positions = top(torch.tensor([[1.0, 0.0]]), [torch.eye(2), -torch.eye(2)], k=2)
        >>> positions.tolist()
        [[0, 1]]
    """
    if k < 1:
        raise BadValue(f"expected k >= 1 neighbours, got k={k}")
    directions = _unit(queries, "queries", queries.shape[1])
    best = [torch.empty(len(part), 0, dtype=torch.int64) for part in directions.split(ROWS)]
    start = 0
    for members in _blocks(bank, directions.shape[1]):
        for number, part in enumerate(directions.split(ROWS)):
            best[number] = _merge_block(best[number], part @ members.T, start, k)
        start += len(members)
    if not start:
        raise NotEnough("expected a bank of at least one representation, got none")
    keys = torch.cat([part.sort(1, descending=True).values for part in best])
    return _cosines(keys), _LAST - (keys & _LAST)


def _unit(reps: Float[Tensor, "batch dim"], name: str, dim: int) -> Float[Tensor, "batch dim"]:
    if reps.shape[1] != dim:
        raise Mismatch(f"expected {name} of {dim} numbers each as the queries have, got {reps.shape[1]}")
    reps = reps.detach().cpu().float()
    if not bool(torch.linalg.vector_norm(reps, dim=1).isfinite().all()):
        raise NotFinite(f"{name}: expected finite representations, got NaN or infinite ones; see the audit's checks")
    return unit(reps)


def _blocks(bank: Iterable[Tensor], dim: int) -> Iterator[Tensor]:
    """Yield the bank's unit vectors COLUMNS at a time, however it is cut."""
    left = torch.empty(0, dim)
    for chunk in bank:
        parts = torch.cat([left, _unit(chunk, "bank", dim)]).split(COLUMNS)
        full = [part for part in parts if len(part) == COLUMNS]
        yield from full
        left = parts[-1] if len(parts) > len(full) else left[:0]
    if len(left):
        yield left


def _merge_block(best: Keys, cosines: Float[Tensor, "queries block"], start: int, k: int) -> Keys:
    """Return the keys of the k best members so far, in any order, after a block that begins at `start`."""
    # drop what cannot be among the k best
    full = best.shape[1] == k  # then an equal cosine is no gain: it stands further back
    above = cosines > _cosines(best.amin(1, keepdim=True)) if full else cosines >= _find_threshold(cosines, k)
    place = torch.from_numpy(np.flatnonzero(above.numpy()))  # several times as fast as nonzero
    row, column = place // cosines.shape[1], place % cosines.shape[1]
    # pack the rest, a ragged number for each query, into rows of keys
    counts = row.bincount(minlength=len(best))
    order = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
    added = torch.full((len(best), max(counts.tolist(), default=cosines.shape[1])), _NONE)
    added[row, order] = _keys(cosines.view(-1)[place], start + column)
    keys = torch.cat([best, added], 1)
    return keys.topk(min(k, keys.shape[1]), sorted=False).values


def _find_threshold(cosines: Float[Tensor, "queries block"], k: int) -> Float[Tensor, "queries 1"]:
    """A cosine that at least k of each row reach, and few more: the k-th largest of the maxima of groups."""
    width = cosines.shape[1]
    if width <= k:
        return cosines.amin(1, keepdim=True)
    size = max(1, width // (4 * k))
    maxima = cosines[:, : width // size * size].unflatten(1, (size, -1)).amax(1)
    return maxima.topk(k, sorted=False).values.amin(1, keepdim=True)


def _keys(cosines: Float[Tensor, "*shape"], positions: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Return whole numbers ordered as (cosine, lower position first): the cosine's bits above those of the position."""
    bits = (cosines + 0.0).view(torch.int32)  # + 0 makes -0 and 0 equal
    return (_flip_bits(bits).long() << 32) + (_LAST - positions)


def _cosines(keys: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return _flip_bits((keys >> 32).int()).view(torch.float32)


def _flip_bits(bits: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Return a float's bits as a number in the order of floats, or the bits of such a number."""
    # Negative floats are ordered the other way round: of them all bits but the sign are turned over
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)
