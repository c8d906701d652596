"""Negatives: the other images that an image must not be confused with."""

from functools import lru_cache

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.numerics.rng import Rng
from holdfast.numerics.shapes import Positions
from holdfast.runtime.errors import BadValue

SPARSE = 128
"""So many times as large is a permutation of which some places are faster than all."""


def draw_negatives(rng: Rng, positions: Positions, population: int, count: int) -> Int[Tensor, "batch count"]:
    """Draw for every image `count` other images of the population, without replacement.

    They depend on the seed and on the image's id, so measures that use the same count compare the same pairs.

    Args:
        rng: random numbers of the run, bound to the ids of these images.
        positions: where the images stand in the population, [B].
        population: how many images there are.
        count: K, how many to draw for each.

    Returns:
        Positions in the population, [B, K].

    Raises:
        HoldfastError: more negatives than there are other images.

    Example:
        >>> drawn = draw_negatives(Rng(0, ids=("a", "b")), torch.tensor([0, 1]), population=3, count=2)
        >>> drawn.sort(1).values.tolist()
        [[1, 2], [0, 2]]
    """
    if not 1 <= count < population:
        raise BadValue(
            f"negatives: expected from 1 to {population - 1}, since there are {population} images, got {count}"
        )
    stream = rng.child("negatives")
    places = torch.stack([first_of_permutation(population - 1, count, stream.generator(image)) for image in rng.ids])
    # Numbers from the own one on move up by one, so that it is left out
    return places + (places >= positions.cpu()[:, None])


def first_of_permutation(size: int, count: int, generator: torch.Generator) -> Int[Tensor, "count"]:
    """Return the first numbers of `torch.randperm(size)`, in a time that grows with these alone.

    randperm draws 32 bits for each place and exchanges its number with that of a later place. So the first places need
    the first draws alone, and a table of the numbers that were exchanged.

    Args:
        size: of the permutation.
        count: how many of its numbers.
        generator: where they are drawn from; it advances less than by `torch.randperm`.

    Source: Durstenfeld (1964), "Algorithm 235: Random permutation", on a sparse array.

    Example:
        >>> one, same = torch.Generator().manual_seed(0), torch.Generator().manual_seed(0)
        >>> bool((first_of_permutation(1000, 5, one) == torch.randperm(1000, generator=same)[:5]).all())
        True
    """
    if size < SPARSE * count:
        return torch.randperm(size, generator=generator)[:count]
    both = torch.empty((count + 1) // 2, dtype=torch.int64).random_(-(2**63), None, generator=generator)  # 64 bits each
    draws = torch.stack([both >> 32, both], 1).flatten()[:count] & 0xFFFFFFFF
    exchanged: dict[int, int] = {}
    numbers = []
    for place, draw in enumerate(draws.tolist()):
        other = place + draw % (size - place)
        numbers.append(exchanged.get(other, other))
        exchanged[other] = exchanged.get(place, place)
    return torch.tensor(numbers)


@lru_cache(maxsize=8)  # several measures and encoders ask for the same
def negatives_of(seed: int, ids: tuple[str, ...], population: int, count: int) -> Int[Tensor, "images count"]:
    """Return the negatives that observations draw for the first images of a population, see `draw_negatives`.

    Args:
        seed: of the run.
        ids: of these images.
        population: how many images there are.
        count: negatives of each.

    Example:
        >>> negatives_of(0, ("a", "b", "c"), population=3, count=1).shape
        torch.Size([3, 1])
    """
    return draw_negatives(Rng(seed, ids=ids), torch.arange(len(ids)), population, count)
