"""Which pairs of images are compared: all of them or, of very many images, some in which all images take part alike.

N images have N(N-1)/2 pairs. A share or a mean over pairs is a U-statistic. Let the images stand in a circle in a
random order, and each be compared with the m next ones: the N m pairs make an incomplete U-statistic of the same
expectation, whose variance

    var U = 4 ζ₁ / N + ζ₂ / N m    (but for terms of order 1/N²)

loses nothing of the first term, which rules. What an image's own 2m pairs say varies by ζ₁ + ζ₂ / 2m around the mean:
Σ 4 (u_i - ū)² / N², the estimate for all pairs, serves here too. It counts the second term twice, as it does there.

Source: Blom (1976), "Some properties of incomplete U-statistics"; Lee (1990), "U-Statistics", 4.3: balanced designs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics.geometry.circle import SIDE, Circle
from holdfast.numerics.rng import Rng
from holdfast.runtime.errors import BadValue

EXACT, SAMPLED = 100_000, 50_000
"""Images of which all pairs are compared; and as many pairs as which have are compared of more, 1.25 billion."""

FEWEST = 3
"""Images without each of which there is still a pair."""


def partners(images: int, pairs_of: int | None = None) -> int:
    """Return with how many others each image is compared: with all, or an even number of them.

    Args:
        images: how many there are.
        pairs_of: as many pairs are compared as so many images have, at most; None: all of up to 100,000 images, of
            more as 50,000 have.

    Raises:
        HoldfastError: fewer than 3.

    Example:
        >>> [partners(number) for number in (10_000, 100_000, 1_000_000)]
        [9999, 99999, 2498]
        >>> partners(100, pairs_of=50)
        24
    """
    check(pairs_of)
    if images <= max(FEWEST, EXACT if pairs_of is None else pairs_of):
        return images - 1
    # As many next ones as before, so an even number; in all as many pairs as `among` images have
    among = SAMPLED if pairs_of is None else pairs_of
    return 2 * max(1, among * (among - 1) // 2 // images)


def circle(seed: int, images: int, pairs_of: int | None = None) -> Circle | None:
    """Return how images stand that are compared with those next to them; None where all pairs are compared.

    The order follows from the seed: that of the images of an audit follows from the seed and their ids already.

    Args:
        seed: of the run.
        images: how many there are.
        pairs_of: see `partners`.

    Example:
        >>> circle(0, 5) is None, circle(0, 100, pairs_of=50).reach
        (True, 12)
    """
    of_each = partners(images, pairs_of)
    if of_each >= images - 1:
        return None
    # A stream of its own, so that no other draw of the run changes which pairs are compared
    random = Rng(seed).child("pairs").generator()
    return Circle(torch.randperm(images, generator=random), of_each // 2)


def work(images: int, pairs_of: int | None = None) -> int:
    """Return how many distances are computed, up to the size of blocks: a circle's leave some out.

    Args:
        images: how many there are.
        pairs_of: see `partners`.

    Example:
        >>> work(1000), work(1000, pairs_of=100)
        (499500, 260000)
    """
    of_each = partners(images, pairs_of)
    # Blocks at both ends of the band of partners are computed whole
    return images * (of_each if of_each >= images - 1 else of_each + 2 * SIDE) // 2


def check(pairs_of: int | None) -> None:
    """Raise where pairs of too few images are to be compared.

    Args:
        pairs_of: see `partners`.

    Raises:
        HoldfastError: fewer than 3.

    Example:
        >>> check(None), check(3)
        (None, None)
    """
    if pairs_of is not None and pairs_of < FEWEST:
        raise BadValue(
            f"pairs_of: expected as many pairs as at least {FEWEST} images have, got {pairs_of}; leave it out for all "
            f"pairs of up to {EXACT:,} images, and of more as many as {SAMPLED:,} have"
        )


def moves(near: Float[Tensor, "population"]) -> Float[Tensor, "population"]:
    """By how much each image moves a share of pairs, 2 (u_i - ū) / N to first order (Hájek).

    Args:
        near: u_i, the share among the pairs of each image.

    Example:
        >>> moves(torch.tensor([0.5, 0.5, 0.0, 0.0])).tolist()
        [0.125, 0.125, -0.125, -0.125]
    """
    return 2 * (near.double() - near.double().mean()) / len(near)


def describe_interval(interval: str, images: int, of_each: int) -> str:
    """Return the kind of an interval, with how many pairs of each image were compared where these are not all.

    Example:
        >>> describe_interval("Student's t", 1_000_000, 2000)
        "Student's t; each of 1,000,000 images compared with 2,000 others"
    """
    some = of_each < images - 1
    return f"{interval}; each of {images:,} images compared with {of_each:,} others" if some else interval
