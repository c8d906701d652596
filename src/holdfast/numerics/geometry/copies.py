"""Copies: images that show one picture, but for noise of some grey levels, JPEG, or a crop or shift by a little."""

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, grid_sample

from holdfast.numerics.geometry.blocks import Side, rows_in_memory, square_distances

SIDE = 32
"""Height and width at which pictures are compared, unless they are smaller."""

SURE, LIKELY = 0.1, 0.25
"""Parts of its contrast by which a copy differs: surely one; one if all other images are far farther away."""

APART = 0.4
"""As far as a likely copy is from its picture, compared with the nearest image that is none: at most."""

SMALLEST = 6
"""Pixels of a side from which on pictures are compared."""

POOL = 8
"""Height and width at which pairs are looked for: means differ no more than what they are means of."""

Grey = Float[Tensor, "images height width"]


def shrink_to_grey(pixels: Float[Tensor, "images channels height width"]) -> Grey:
    """Return images in grey, their means over a grid of 32 by 32 cells where they are larger.

    Example:
        >>> shrink_to_grey(torch.rand(2, 3, 64, 8)).shape
        torch.Size([2, 32, 8])
    """
    grey = pixels.float().mean(1, keepdim=True)
    return adaptive_avg_pool2d(grey, (min(SIDE, grey.shape[2]), min(SIDE, grey.shape[3]))).squeeze(1)


def steps_for(shape: tuple[int, int, int]) -> tuple[float, ...]:
    """Return by how many pixels of what is compared copies are moved and cropped, of images of a shape.

    Example:
        >>> steps_for((1, 8, 8)), steps_for((3, 32, 32)), steps_for((3, 224, 224))
        ((1.0,), (1.0, 2.0), (0.5, 1.0))
    """
    side = min(shape[1:])
    return (0.5, 1.0) if side > SIDE else (1.0, 2.0) if side > SIDE // 2 else (1.0,)


def copies(images: Grey, steps: tuple[float, ...] = (1.0,)) -> Int[Tensor, "images"]:
    """Return the number of the first image that shows the same picture as each does, itself where there is none.

    x_i and x_j are copies where ρ_ij <= 0.1 (see `differences`); or where ρ <= 0.25 and the next image that is none is
    2.5 times as far from both. Copies of copies are copies. Images of less than 6 pixels a side have none: of so few
    numbers other pictures may have nearly the same.

    Args:
        images: in grey, see `shrink_to_grey`.
        steps: s, in pixels of what is given.

    Example:
        >>> images = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> copies(torch.cat([images, images.roll(1, 2), images[:1] + 0.02])).tolist()
        [0, 1, 2, 0, 1, 2, 0]
    """
    if min(images.shape[1:]) < SMALLEST:
        return torch.arange(len(images))
    return _first_of_each(_find_copy_pairs(differences(images, steps)))


def differences(images: Grey, steps: tuple[float, ...] = (1.0,)) -> Float[Tensor, "images images"]:
    """Return by which part of its contrast each image differs from each: ρ, or of those above 0.25 a lower bound.

    ρ_ij = min over versions v of the RMS of v(x_i) - x_j inside a border of a pixel, over the smaller of the standard
    deviations of x_i and x_j; of both orders the smaller. Versions: the image itself; moved by s pixels up, down, left,
    right, both; s pixels of any of its sides cropped, and the rest resized. ρ is free of scale: nothing changes where
    all images get brighter, paler or larger.

    Args:
        images: in grey, of 6 pixels a side at least.
        steps: s, in pixels of what is given.

    Example:
        >>> images = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> differences(torch.cat([images, images.roll(1, 2)]))[0, 1].item()
        0.0
    """
    n = len(images)
    whole, small = _rows(images)
    # Of flat images too, so that none is divided by 0
    contrast = whole.std(1, correction=0).clamp_min(1e-6)
    scale = torch.minimum(contrast[:, None], contrast)
    # where means are far apart, so are images: what is not compared in full is at least as far
    apart = torch.full((n, n), torch.inf)
    for version in _versions(images, steps):
        moved, moved_small = _rows(version)
        bound = _distances(moved_small, small) / moved_small.shape[1] ** 0.5 / scale
        first, second = (bound <= LIKELY).nonzero(as_tuple=True)
        for places in torch.arange(len(first)).split(2**18):
            i, j = first[places], second[places]
            # Some pairs at a time: both of their images are copied
            bound[i, j] = (moved[i] - whole[j]).square().mean(1).sqrt() / scale[i, j]
        apart = torch.minimum(apart, bound)
    # Versions are taken of one image of a pair only, and which one makes a difference at the edges
    return torch.minimum(apart, apart.T).fill_diagonal_(0)


def _rows(images: Grey) -> tuple[Tensor, Tensor]:
    """Return what is compared of images, without a border of a pixel, and means of it."""
    inner = images[:, 1:-1, 1:-1]
    small = adaptive_avg_pool2d(inner[:, None], (min(POOL, inner.shape[1]), min(POOL, inner.shape[2])))
    return inner.flatten(1), small.flatten(1)


def _find_copy_pairs(apart: Float[Tensor, "images images"]) -> Bool[Tensor, "images images"]:
    """Return which pairs are copies."""
    # The first of each row is the image itself; `beyond` is the next one farther away
    ordered = apart.sort(1).values
    beyond = torch.nn.functional.pad(ordered[:, 1:], (0, 1), value=torch.inf)
    # the farthest of each image's neighbours beyond which there is a gap
    gap = (ordered <= LIKELY) & (ordered <= APART * beyond)
    reach = ordered.masked_fill(~gap, 0).amax(1)
    # Both images must see the gap behind the other
    return (apart <= SURE) | (apart <= torch.minimum(reach[:, None], reach))


def _first_of_each(joined: Bool[Tensor, "images images"]) -> Int[Tensor, "images"]:
    """Return the first image that pairs lead to from each."""
    first = torch.arange(len(joined))
    i, j = joined.nonzero(as_tuple=True)
    while True:
        # The least number among the images that each is joined to, and then the number that this
        # one has: chains halve
        least = first.scatter_reduce(0, i, first[j], "amin")
        least = least[least]
        if torch.equal(least, first):
            return first
        first = least


def _versions(images: Grey, steps: tuple[float, ...]) -> Iterator[Grey]:
    """Yield images as they are, moved, and cropped."""
    yield images
    _, height, width = images.shape
    for step in steps:
        moves = [(dy, -dy, dx, -dx) for dy, dx in itertools.product((-step, 0.0, step), repeat=2) if dy or dx]
        crops = [sides for sides in itertools.product((0.0, step), repeat=4) if any(sides)]
        for top, bottom, left, right in [*moves, *crops]:
            y = _places(height, top, bottom)
            x = _places(width, left, right)
            grid = torch.stack(torch.meshgrid(y, x, indexing="ij")[::-1], -1).expand(len(images), -1, -1, -1)
            # A move by whole pixels copies them; in between the result depends on how a library interpolates
            for mode in ("bilinear", "bicubic") if (top, left) != (-bottom, -right) or step % 1 else ("nearest",):
                yield grid_sample(images[:, None], grid, mode, "border", align_corners=False).squeeze(1)


def _places(size: int, before: float, after: float) -> Float[Tensor, "size"]:
    """Return where the pixels of a side lie that is cut, and resized, from -1 to 1."""
    # Centres of pixels, in pixels of the uncut side
    cells = before + (torch.arange(size) + 0.5) * (size - before - after) / size
    return cells / size * 2 - 1


def _distances(a: Tensor, b: Tensor) -> Tensor:
    """Return ||a_i - b_j|| of all pairs, [len(a), len(b)]."""
    origin = b[:1].double()
    columns = Side(b.double(), origin)
    blocks = (square_distances(Side(rows.double(), origin), columns) for rows in a.split(rows_in_memory(len(b))))
    return torch.cat([block.sqrt_().float() for block in blocks])
