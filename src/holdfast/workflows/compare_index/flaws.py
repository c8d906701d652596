"""What the vectors of two builds of one network show by themselves: dead numbers, codes, another order; no pass."""

from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from holdfast.numerics.geometry.directions import cosine, unit
from holdfast.numerics.shapes import Reps
from holdfast.numerics.statistics.statistic import Share
from holdfast.storage.index_upgrade import Cause
from holdfast.workflows.compare_index.cosines import median_cosine

SideName = Literal["old", "new"]

STILL = 1e-6
"""A number varies less than that share of what the others of a vector do: it is the same for all images."""

MOST = 2000
"""Images whose vectors are looked at, the first ones: those of an index may be millions."""

LEVELS = 256
"""Numbers that 8 bits tell apart."""

EVIDENT = 0.95
"""Share of images, or cosine, from which on vectors are held to be made of the other's."""


def flaws(old: Reps, new: Reps) -> list[Cause]:
    """Return what is wrong with vectors of one side as the other side's show it, the plainest first.

    Args:
        old: vectors of the old encoder, [N, D].
        new: of the new one, [N, D'].
    """
    found: list[Cause] = []
    # The new side first: a build is at fault more often than what it was built from
    sides: tuple[tuple[SideName, Reps, Reps], ...] = (("new", new, old), ("old", old, new))
    for side, mine, other in sides:
        found += [Cause(kind="vectors", side=side, name=name) for name in _by_itself(mine, other)]
    if any(is_constant(mine) for _, mine, _ in sides):
        return found  # nothing else can be told of them
    for side, mine, other in sides:
        found += _trace(side, mine, other)
    if old.shape == new.shape and (moved := _in_another_order(old, new)) is not None:
        found.append(moved)
    return found


def _by_itself(mine: Reps, other: Reps) -> Iterator[str]:
    """Yield what is odd with the vectors of one side, and not with the other's."""
    count, dim = mine.shape
    if zeros := int((mine == 0).all(1).sum()):
        yield f"are zero of {zeros:,} of {count:,} images"
    if is_constant(mine):
        yield "are the same for all images"
        return
    dead = _still(mine)
    # What is dead on both sides is the network's own
    if mine.shape == other.shape:
        dead = dead & ~_still(other)
    elif bool(_still(other).any()):
        dead = torch.zeros_like(dead)
    if number := int(dead.sum()):
        yield f"have {number:,} of {dim:,} numbers that are the same for all images (dead)"
    levels = mine.unique()
    # Many more numbers than levels, for real numbers hardly ever meet
    if 2 < len(levels) <= LEVELS and mine.numel() > 16 * LEVELS:
        ends = float(((mine == levels[0]) | (mine == levels[-1])).double().mean())
        clipped = f", and {100 * ends:.1f} % of them are at its ends" if ends > 0.01 and levels[0] != 0 else ""
        yield f"are rounded to {len(levels)} levels{clipped}"


def is_constant(reps: Reps) -> bool:
    """Whether all images have the same vector, but for rounding."""
    spread = (reps - reps.mean(0)).norm(dim=1).amax()
    # Relative to the length of the vectors, which rounding grows with
    return bool(spread <= STILL * reps.norm(dim=1).amax())


def _still(reps: Reps) -> Bool[Tensor, "dim"]:
    """Which numbers are the same for all images."""
    return reps.std(0) <= STILL * reps.std(0).median().clamp_min(1e-30)


def _trace(side: SideName, mine: Reps, other: Reps) -> Iterator[Cause]:
    """Yield how the vectors of one side are made of the other's: cut off, turned into signs, moved."""

    def compare(name: str, like: Reps, before: Reps | None = None) -> Iterator[Cause]:
        after = 1 - cosine(like, mine)
        if float(after.median()) >= EVIDENT:
            was = None if before is None else median_cosine(1 - cosine(before, mine))
            yield Cause(kind="vectors", side=side, name=name, cosine=median_cosine(after), before=was)

    dim, whole = mine.shape[1], other.shape[1]
    # Matryoshka vectors, or an index whose columns are too short
    if dim < whole:
        yield from compare(f"are the first {dim:,} of the other's {whole:,} numbers (truncated)", other[:, :dim])
    elif dim == whole and len(levels := mine.unique()) <= 2 < len(other.unique()):
        # Codes of 0 and 1, or of -1 and 1
        signs = torch.where(other > 0, levels[-1], levels[0])
        yield from compare("are codes, the signs of the other's", signs, other)
    elif dim == whole and side == "new":
        # One vector that is added to all, such as a mean that only one of them subtracts
        centred = [reps - reps.mean(0) for reps in (mine, other)]
        apart, without = cosine(mine, other), cosine(*centred)
        halved = Share((without < apart / 2).double()).score()
        if halved.low is not None and halved.low > 0.5 and 1 - float(without.median()) >= EVIDENT:
            yield Cause(
                kind="vectors",
                side=side,
                name="differ from the other's by one and the same vector",
                cosine=median_cosine(1 - without),
                before=median_cosine(1 - apart),
            )


def _in_another_order(old: Reps, new: Reps) -> Cause | None:
    """Return which other image's vector each image gets, where that is one other image for nearly each."""
    count = len(old)
    # The cosine of each new vector with each old one
    near = unit(new) @ unit(old).T
    # Rounding leaves no cosine above 1
    best, owner = near.clamp(-1, 1).max(1)
    own = near.diagonal()
    moved = (owner != torch.arange(count)) & (1 - best < (1 - own) / 2)
    share = Share(moved.double()).score()
    # Each image has one owner: of unlike vectors a few would own most
    if share.low is None or share.low <= 0.5 or len(owner.unique()) < EVIDENT * count:
        return None
    return Cause(
        kind="vectors",
        side="new",
        name=f"come in another order: {_describe_order(owner)}",
        cosine=median_cosine(best),
        before=median_cosine(own),
    )


def _describe_order(owner: Int[Tensor, "images"]) -> str:
    """Return an order in words: shifted, reversed in batches, or shuffled."""
    count = len(owner)
    places = torch.arange(count)
    shifts = (owner - places) % count
    shift = int(shifts.mode().values)
    if float((shifts == shift).double().mean()) >= EVIDENT:
        far, where = (shift, "after") if shift <= count // 2 else (count - shift, "before")
        return f"each image has the vector of the one that is {far} places {where} it"
    # In a batch that is reversed, place + owner is one number
    sums = places + owner
    if float((sums[1:] == sums[:-1]).double().mean()) > 0.5:
        ends = (sums[1:] != sums[:-1]).nonzero().flatten()
        return f"reversed within each {int(ends[0]) + 1 if len(ends) else count} images"
    return "shuffled"
