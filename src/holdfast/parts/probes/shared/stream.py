"""Labelled representations that pass by: in blocks, in another order, some of them, their mean and deviation."""

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Bank, Reps
from holdfast.parts.probes.shared.training import check_finite
from holdfast.runtime.errors import Mismatch

Labelled = tuple[Reps, Int[Tensor, "batch"]]


def blocks(bank: Bank, targets: Int[Tensor, "bank"], rows: int) -> Iterator[Labelled]:
    """Yield all representations and their targets in order, `rows` at a time however the bank is cut.

    The last block may be smaller.

    Raises:
        HoldfastError: representations that are not finite, or not as many as labels.
    """
    done, left = 0, None
    for chunk in bank.chunks():
        check_finite(chunk)
        # What was left of the chunk before comes first, so blocks do not depend on where chunks end
        parts = (chunk if left is None else torch.cat([left, chunk])).split(rows)
        for part in parts[:-1]:
            yield part, targets[done : done + rows].to(part.device)
            done += rows
        left = parts[-1].clone()  # a view would keep its chunk in memory
    total = done + (0 if left is None else len(left))
    if total != len(targets):
        raise Mismatch(f"expected a representation for each of {len(targets)} labels, got {total}")
    if left is not None and len(left):
        yield left, targets[done:].to(left.device)


def shuffle_stream(stream: Iterator[Labelled], random: torch.Generator) -> Iterator[Labelled]:
    """Yield the rows of a stream of blocks in another order, from a pool of two blocks.

    Half of the pool leaves it by chance, then the next block comes in. A row may leave at once or stay for long, so
    every epoch puts other rows together. A stream of one block comes in a random order.
    """
    pool: Labelled | None = None
    for reps, targets in stream:
        if pool is None:
            pool = _permute(reps, targets, random)
            continue
        # Two blocks are mixed, one leaves; clones, for views would keep both in memory
        mixed = _permute(torch.cat([pool[0], reps]), torch.cat([pool[1], targets]), random)
        yield mixed[0][: len(reps)], mixed[1][: len(reps)]
        pool = mixed[0][len(reps) :].clone(), mixed[1][len(reps) :].clone()
    if pool is not None:
        yield pool


def _permute(reps: Reps, targets: Int[Tensor, "batch"], random: torch.Generator) -> Labelled:
    order = torch.randperm(len(reps), generator=random).to(reps.device)
    return reps[order], targets[order]


def select(bank: Bank, places: Int[Tensor, "some"]) -> Float[Tensor, "some dim"]:
    """Return the representations at some places of a bank, in the order of the places; its chunks are read once."""
    # Chunks pass by in order, so places are looked for in order, and put back afterwards
    ordered, back = places.sort()
    picked, start = [], 0
    for chunk in bank.chunks():
        within = ordered[(ordered >= start) & (ordered < start + len(chunk))] - start
        picked.append(chunk[within.to(chunk.device)])
        start += len(chunk)
    if int(ordered[-1]) >= start:
        raise Mismatch(f"expected a representation for every label, got {start} of them")
    # `back` says where each sorted place stood; its argsort is the inverse
    return torch.cat(picked)[back.argsort().to(picked[0].device)]


def moments(stream: Iterator[Labelled]) -> tuple[Float[Tensor, "dim"], Float[Tensor, "dim"]]:
    """Return mean m and deviation s of every feature in float64; s = 1 for a feature that does not vary.

    Blocks are merged by n = n₁ + n₂, m = m₁ + δ n₂/n, M = M₁ + M₂ + δ² n₁n₂/n with δ = m₂ - m₁ and M the sum of squared
    deviations, so a large mean costs no digits. The blocks are read once.

    Source: Chan, Golub & LeVeque (1983), "Algorithms for computing the sample variance".
    """
    count, mean, squares, largest = 0, *[torch.zeros((), dtype=torch.float64)] * 3
    for block, _ in stream:
        reps = block.double()
        # δ, then the merged mean and sum of squared deviations
        block_mean, total = reps.mean(0), count + len(reps)
        gap = block_mean - mean.to(block_mean)
        mean = mean.to(block_mean) + gap * (len(reps) / total)
        squares = (
            squares.to(block_mean) + (reps - block_mean).square().sum(0) + gap.square() * (count * len(reps) / total)
        )
        largest = torch.maximum(largest.to(block_mean), reps.abs().amax(0))
        count = total
    # A deviation of 1e-12 of the largest value is rounding: dividing by it would blow it up to 1
    scale = (squares / count).sqrt()
    return mean, torch.where(scale > 1e-12 * largest, scale, torch.ones_like(scale))
