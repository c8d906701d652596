"""Common corruptions: drops of water or mud on the lens."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images, Rng
from holdfast.parts.threats.imagenet_c.batches import too_small
from holdfast.parts.threats.imagenet_c.edges import distance, edges
from holdfast.parts.threats.imagenet_c.rows import gaussian

WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)

BOX = ((1, 1, 1), (1, 1, 1), (1, 1, 1))
EMBOSS = ((-2, -1, 0), (-1, 1, 1), (0, 1, 2))

Grey = Float[Tensor, "batch 1 height width"]


def spatter(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x behind drops: where normal numbers N(c₁, c₂), blurred with deviation c₃, are above c₄.

    Mud covers the image where its mask, blurred with deviation c₅, is at least .8. Water adds its colour, up to c₅,
    where the drops are deepest and lit from one corner; see `relief`. Where no drop fell, nothing changes.

    Raises:
        HoldfastError: images with a side of one pixel.
    """
    mean, deviation, blur, threshold, strength, mud = constants
    if min(x.shape[2:]) < 2:
        raise too_small("spatter", x, 2)
    liquid = gaussian(mean + deviation * rng.normal(1, *x.shape[2:]).to(x), blur)
    if mud:
        # Mud: the drops, softened, of which only what is nearly full stays
        mask = gaussian((liquid > threshold).to(x), strength)
        mask = mask.where(mask >= 0.8, 0)
        return x * (1 - mask) + mask * x.new_tensor(MUD).view(3, 1, 1)
    # Water: depths in 8 bits, as OpenCV's edges need them
    depth = (255 * liquid.where(liquid >= threshold, 0)).floor()
    mask = depth * relief(depth)
    mask = strength * mask / mask.amax((2, 3), keepdim=True).clamp_min(1)  # products of whole numbers: 0, or at least 1
    return x + mask * x.new_tensor(WATER).view(3, 1, 1)


def relief(depth: Grey) -> Grey:
    """Brightness of a surface at each depth: the distance to the nearest edge, embossed.

    Distances up to 20 pixels, smoothed over 3 x 3 and cut to whole numbers, are spread evenly over 0 ... 255, lit by a
    kernel that adds what lies to the lower right and takes away what lies to the upper left, and smoothed again.

    Args:
        depth: whole numbers, [B, 1, H, W].
    """
    # 50 and 150 are the published thresholds of Canny's edges
    far = distance(edges(depth, 50, 150)).clamp_max(20)
    spread = _equalise(_correlate(far, BOX).div(9).floor())
    lit = _correlate(spread, EMBOSS).clamp(0, 255)
    return _correlate(lit, BOX).div(9).round().to(depth)


def _equalise(levels: Grey) -> Grey:
    """Return levels 0 ... 20 spread so that all are about as frequent; the lowest becomes 0."""
    places = levels.flatten(1).long()
    # OpenCV's equalizeHist: a histogram of each image, and its
    # cumulative counts above the lowest level
    counts = places.new_zeros(len(levels), 21).scatter_add_(1, places, torch.ones_like(places))
    lowest = counts.gather(1, places.amin(1, keepdim=True))
    spread_over = places.shape[1] - lowest
    table = (counts.cumsum(1) - lowest).clamp_min(0) * (255 / spread_over.clamp_min(1))
    # An image of one level has nothing to spread, and stays as it is
    table = torch.where(spread_over > 0, table.round(), torch.arange(21, device=levels.device))
    return table.gather(1, places).view_as(levels)


def _correlate(x: Grey, kernel: tuple[tuple[int, ...], ...]) -> Grey:
    """Return Σ kernel[i][j] · x(· + i - 1, · + j - 1), reflected at the edge."""
    wide, out = F.pad(x, (1, 1, 1, 1), mode="reflect"), torch.zeros_like(x)
    for i, row in enumerate(kernel):
        for j, share in enumerate(row):
            if share:
                out.add_(wide[:, :, i : i + x.shape[2], j : j + x.shape[3]], alpha=share)
    return out
