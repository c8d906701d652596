"""Common corruptions: blur."""

import math
from functools import lru_cache

import numpy as np
import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images, Rng
from holdfast.parts.threats.imagenet_c.batches import too_small
from holdfast.parts.threats.imagenet_c.motion import move
from holdfast.parts.threats.imagenet_c.rows import gaussian


def gaussian_blur(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x convolved with a Gaussian of standard deviation c, cut off at 4 c; beyond its edge the edge goes on."""
    (deviation,) = constants
    return gaussian(x, deviation)


def motion_blur(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x smeared along a line whose angle is uniform in [-45°, 45°]; see `move`."""
    radius, deviation = constants
    # The constants are (radius, deviation), as ImageMagick takes them; u in [0, 1) -> [-45°, 45°)
    return move(x, 90 * rng.uniform(1)[:, 0] - 45, int(radius), deviation)


def defocus_blur(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x convolved with a disk of radius c₁ that a small Gaussian of deviation c₂ has softened.

    The image is reflected at its edges. Sums of neighbours in a row, P_j = x(· - j) + ... + x(· + j), each made of the
    one before, serve all rows of the kernel: a row is constant but near the disk's edge, so it takes few of them,

        K_i0 x(·) + Σ_j K_ij (x(· - j) + x(· + j)) = Σ_j (K_ij - K_i,j+1) P_j.

    Raises:
        HoldfastError: images that are smaller than half of the kernel.
    """
    kernel = _disk(*constants)  # its lower right quarter
    reach, (channels, height, width) = len(kernel) - 1, x.shape[1:]
    if min(height, width) <= reach:
        raise too_small("defocus_blur", x, reach + 1)
    # the differences K_ij - K_i,j+1 of the kernel's rows, most of them zero
    drops = -kernel.diff(dim=1, append=kernel.new_zeros(reach + 1, 1))
    drops = torch.cat([drops[1:].flip(0), drops])  # of all rows of the kernel, from above
    row, sums = (drops.abs() > 1e-9).nonzero(as_tuple=True)
    # which row of which sum P_j each of them takes
    rows = torch.arange(height)[:, None] + row - reach
    rows = (height - 1) - ((height - 1) - rows.abs()).abs()  # reflected
    # The sums stand below each other as rows of one table: row h of
    # channel c of P_j is h + H (c + C j)
    rows = rows + height * (channels * sums + torch.arange(channels)[:, None, None])
    rows, shares = rows.flatten(0, 1).to(x.device), drops[row, sums].to(x).repeat(channels * height, 1)
    # One table of sums, [reach + 1, C, H, W], is used again for every image
    out, total = torch.empty_like(x), x.new_empty(reach + 1, *x.shape[1:])
    for image, into in zip(x, out, strict=True):  # few enough numbers for a cache
        wide = F.pad(image, (reach, reach), mode="reflect")
        total[0] = image
        for j in range(1, reach + 1):
            # P_j = P_j-1 + x(· + j) + x(· - j): windows of the padded rows, begun
            # j to the right and to the left
            torch.add(total[j - 1], wide[..., reach + j :][..., :width], out=total[j])
            total[j].add_(wide[..., reach - j :][..., :width])
        visible = F.embedding_bag(rows, total.view(-1, width), mode="sum", per_sample_weights=shares)
        into.copy_(visible.view_as(into))
    return out


@lru_cache(32)
def _disk(radius: float, deviation: float) -> Float[Tensor, "reach reach"]:
    """Return the lower right quarter of the kernel, centre first, without rows and columns that are zero.

    Small disks lie on a grid of 17 x 17 and are softened by 3 x 3 pixels, others by 5 x 5. The softening reflects at
    the end of the grid, where what a disk loses comes back too heavily: as published, the kernels of severities 4 and 5
    sum to 1.013 and 1.011, and brighten images by as much.
    """
    # The grid and the size of the softening kernel are those of the published code
    half, width = (8, 1) if radius <= 8 else (int(radius), 2)
    places = np.arange(-half, half + 1)
    disk = (places[:, None] ** 2 + places**2 <= radius**2).astype(np.float64)
    disk /= disk.sum()
    shares = np.exp(-0.5 * (np.arange(-width, width + 1) / deviation) ** 2)
    shares /= shares.sum()
    for _ in range(2):
        # A Gaussian is separable: along columns, transposed, and along what were the rows
        wide = np.pad(disk, ((width, width), (0, 0)), mode="reflect")
        disk = np.sum([share * wide[k : k + len(places)] for k, share in enumerate(shares)], 0).T
    # The disk is symmetric, so a quarter tells all of it; what is zero on the
    # axis is zero everywhere in its row
    quarter = disk[half:, half:]
    return torch.from_numpy(quarter[quarter[0] > 0][:, quarter[0] > 0])


def glass_blur(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x blurred, cut to 8 bits, shaken, and blurred again, both times by a Gaussian of deviation c₁.

    Shaking visits the pixels from the last to the first, c₃ times, and gives each the value that a neighbour at
    (dy, dx) has by then, uniform in {-c₂, ..., c₂ - 1}². The published code was meant to swap the two, but its swap of
    array rows copies one over the other, and so are the published images made; this follows them.

    Raises:
        HoldfastError: images in which no pixel has all of its neighbours.
    """
    deviation, reach, rounds = constants[0], int(constants[1]), int(constants[2])
    if min(x.shape[2:]) <= 2 * reach:
        raise too_small("glass_blur", x, 2 * reach + 1)
    blurred = gaussian((255 * x).double(), deviation)  # float32 cannot tell levels from what narrow kernels add to them
    # Cut to whole levels, as the published code's uint8 does; 1e-9 keeps
    # levels that rounding put just below
    levels = torch.floor(blurred + 1e-9).to(x)
    for number in range(rounds):
        u = rng.child("round", number).uniform(2, *x.shape[2:])
        # Whole numbers from -c₂ to c₂ - 1, since numpy's randint leaves out its upper end
        places = _shake((2 * reach * u).long() - reach, reach).to(x.device)
        # The same places in all channels: [B, pixels] -> [B, C, pixels]
        levels = levels.flatten(2).gather(2, places[:, None].expand(-1, x.shape[1], -1)).view_as(levels)
    return gaussian(levels / 255, deviation)


def _shake(moves: Int[Tensor, "batch 2 height width"], reach: int) -> Int[Tensor, "batch pixels"]:
    """Return the pixel whose value each pixel has after all were visited from the last to the first.

    A pixel that points at one visited later has that one's value. Where it points at one visited before, it has the
    value of what that one points at, and so on: pointers are followed, two, four, eight, ... at a time, to their ends.

    Args:
        moves: (dy, dx) of the neighbour that each pixel points at.
        reach: pixels nearer than this to the edge are not visited; see the published ranges below.
    """
    height, width = moves.shape[2:]
    index = torch.arange(height * width)
    rows, columns = index // width, index % width
    # range(H - c₂, c₂, -1) of the published loops: not symmetric about the middle
    visited = (rows > reach) & (rows <= height - reach) & (columns > reach) & (columns <= width - reach)
    # The pixel that each one points at, as a place in the flattened image;
    # itself where it is not visited
    target = index + torch.where(visited, moves[:, 0].flatten(1) * width + moves[:, 1].flatten(1), 0)
    end = torch.where(visited[target] & (target > index), target, index)  # later pixels are visited before
    # Pointer jumping: n rounds follow 2ⁿ steps, so the longest chain takes its
    # logarithm; chains rise, so they end
    while not torch.equal(end, further := end.gather(1, end)):
        end = further
    return target.gather(1, end)


def zoom_blur(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the mean of x and of its centre enlarged by the factors 1, 1 + c₂, 1 + 2 c₂, ... below c₁.

    All zooms together are one sparse matrix that acts on the pixels of every image alike.

    Raises:
        HoldfastError: images with a side of one pixel.
    """
    batch, channels, height, width = x.shape
    if min(height, width) < 2:
        raise too_small("zoom_blur", x, 2)
    pixels, offsets, weights = _zooms(height, width, *constants)
    table = x.reshape(batch * channels, -1).T.contiguous()  # a row for each pixel, with its value in all images
    # A sparse matrix product: bag p holds the entries of row p, and begins at offsets[p]
    visible = F.embedding_bag(
        pixels.to(x.device), table, offsets.to(x.device), mode="sum", per_sample_weights=weights.to(x)
    )
    return visible.T.reshape(x.shape)


@lru_cache(5)
def _zooms(
    height: int, width: int, end: float, step: float
) -> tuple[Int[Tensor, "entries"], Int[Tensor, "pixels"], Float[Tensor, "entries"]]:
    """Return the matrix of the mean of all zooms: columns and values of its entries, and where each row begins."""
    factors = np.arange(1, end, step)
    # The image itself and the zoom by 1 both count, as in the published mean
    total = scipy.sparse.eye_array(height * width, format="csr")
    for factor in factors:
        # The Kronecker product acts on rows and columns of an image that is flattened row by row
        total = total + scipy.sparse.kron(_enlarge(height, factor), _enlarge(width, factor), format="csr")
    total = scipy.sparse.csr_array(total / (len(factors) + 1))
    parts = total.indices.astype(np.int32), total.indptr[:-1].astype(np.int32), total.data.astype(np.float32)
    return torch.from_numpy(parts[0]), torch.from_numpy(parts[1]), torch.from_numpy(parts[2])


def _enlarge(side: int, factor: float) -> "scipy.sparse.csr_array":
    """Return the matrix that enlarges the middle of a side bilinearly, first pixel to first and last to last."""
    # The part that is enlarged, and its size after scipy's zoom, which rounds
    kept = math.ceil(side / factor)
    results = round(kept * factor)
    places = np.arange(side) * ((kept - 1) / (results - 1))  # of at most one pixel more, which is left out
    # The last place has share 1 between the last two pixels, so that `below + 1` is a pixel too
    below = np.minimum(places.astype(int), kept - 2)
    shares = places - below
    entries = np.concatenate([1 - shares, shares])
    columns = (side - kept) // 2 + np.concatenate([below, below + 1])
    return scipy.sparse.csr_array((entries, (np.tile(np.arange(side), 2), columns)), (side, side))
