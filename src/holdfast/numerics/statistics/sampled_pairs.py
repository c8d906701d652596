"""Which images have their pairs compared: all images or, where these are very many, a sample of them.

N images have N(N-1)/2 pairs. A share or a mean over pairs is a U-statistic, whose interval is about the population that
the images were drawn from. B images drawn out of them are drawn from the same population, only fewer, so their pairs
have the same interval with B in the place of N. It holds the value of all N images' pairs too, and more often than it
says: var(U_B - U_N) = var U_B - var U_N.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core import HoldfastError, Rng

EXACT, SAMPLED = 100_000, 20_000
"""Images of which all pairs are compared, at most; and how many are drawn out of more."""

FEWEST = 3
"""Images without each of which there is still a pair."""


def sample(seed: int, ids: Sequence[str], most: int | None = None) -> Int[Tensor, "sampled"] | None:
    """Return the positions, in rising order, of the images whose pairs are compared; None where these are all.

    An image has a number drawn from (seed, id); those with the smallest ones are the sample, whatever the order.

    Args:
        seed: of the run.
        ids: of the images.
        most: how many are compared at most; None: all of 100,000, and 20,000 of more.

    Raises:
        HoldfastError: fewer than 3 are to be compared.

    Example:
        >>> sample(0, ["a", "b", "c", "d", "e"], most=3)
        tensor([0, 2, 3])
    """
    check(most)
    if len(ids) <= (EXACT if most is None else most):
        return None
    stream = Rng(seed).child("pairs")
    numbers = np.fromiter((stream.number(name) for name in ids), np.uint64, len(ids))
    return torch.from_numpy(np.sort(np.argsort(numbers, kind="stable")[: most or SAMPLED]))


def check(most: int | None) -> None:
    """Raise where pairs of too few images are to be compared.

    Args:
        most: see `sample`.

    Raises:
        HoldfastError: fewer than 3.

    Example:
        >>> check(None), check(3)
        (None, None)
    """
    if most is not None and most < FEWEST:
        raise HoldfastError(
            f"pairs_of: expected at least {FEWEST} images whose pairs are compared, got {most}; leave it out for all "
            f"pairs of up to {EXACT:,} images and those of {SAMPLED:,} drawn out of more"
        )


def spread(
    values: Float[Tensor, "*columns sampled"], sampled: Int[Tensor, "sampled"] | None, population: int
) -> Float[Tensor, "*columns population"]:
    """Return values of sampled images as columns of all images, NaN for the others, in float64.

    Example:
        >>> spread(torch.tensor([0.1, 0.2]), torch.tensor([0, 2]), population=3)
        tensor([0.1000,    nan, 0.2000], dtype=torch.float64)
    """
    if sampled is None:
        return values.double()
    columns = torch.full((*values.shape[:-1], population), torch.nan, dtype=torch.float64)
    columns[..., sampled] = values.double()
    return columns


def moves(near: Float[Tensor, "population"]) -> Float[Tensor, "population"]:
    """By how much each image moves a share of pairs, 2 (u_i - ū) / B to first order (Hájek); 0 where not sampled.

    Args:
        near: u_i, the share among the pairs of each of B images; NaN for images that were not sampled.

    Example:
        >>> moves(torch.tensor([0.5, torch.nan, 0.1])).tolist()
        [0.19999999925494194, 0.0, -0.19999999925494194]
    """
    own = near[compared := ~near.isnan()].double()
    result = torch.zeros(len(near), dtype=torch.float64)
    result[compared] = 2 * (own - own.mean()) / len(own)
    return result


def compared(values: Float[Tensor, "population"]) -> int:
    """Return how many images were sampled, those that are not NaN.

    Example:
        >>> compared(torch.tensor([0.5, torch.nan, 0.1]))
        2
    """
    return int((~values.isnan()).sum())


def left_out(values: Float[Tensor, "images"], classes: Int[Tensor, "images"]) -> Bool[Tensor, "images"]:
    """Return which images were not sampled: undefined ones of a class that has defined ones.

    Example:
        >>> left_out(torch.tensor([0.5, torch.nan, torch.nan]), torch.tensor([0, 0, 1])).tolist()
        [False, True, False]
    """
    undefined = values.isnan()
    return undefined & torch.isin(classes, classes[~undefined])


def described(interval: str, sampled: int, images: int) -> str:
    """Return the kind of an interval, with whose pairs were compared where not all images' were.

    Example:
        >>> described("Student's t", 20_000, 1_000_000)
        "Student's t; pairs of 20,000 images sampled from 1,000,000"
    """
    some = 0 < sampled < images
    return f"{interval}; pairs of {sampled:,} images sampled from {images:,}" if some else interval
