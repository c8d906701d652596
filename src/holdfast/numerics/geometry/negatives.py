"""Negatives: the other images that an image must not be confused with."""

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.core import HoldfastError, Positions, Rng


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
        raise HoldfastError(
            f"negatives: expected from 1 to {population - 1}, since there are {population} images, got {count}"
        )
    stream = rng.child("negatives")
    drawn = [torch.randperm(population - 1, generator=stream.generator(image))[:count] for image in rng.ids]
    places = torch.stack(drawn)
    return places + (places >= positions.cpu()[:, None])
