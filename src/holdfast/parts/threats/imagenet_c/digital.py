"""Common corruptions: what is done to images by software, and elastic bending."""

from functools import lru_cache
from io import BytesIO

import numpy as np
import PIL.Image
import scipy
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from holdfast.core import Images, Rng
from holdfast.parts.threats.imagenet_c.batches import in_parts, too_small
from holdfast.parts.threats.imagenet_c.rows import combine
from holdfast.runtime.doors import open_picture
from holdfast.runtime.errors import Unsupported


def brightness(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the image whose value V = max(R, G, B) is V' = min(V + c, 1), with hue and saturation as they were.

    Keeping both means x · V' / V; where V = 0 it means grey. No HSV image is made, and one channel will do.
    """
    (shift,) = constants
    value = x.amax(1, keepdim=True)
    raised = (value + shift).clamp_max(1)
    # Both sides of `where` are computed: the clamp keeps 0 / 0 out of the one that is dropped
    return torch.where(value > 0, x * (raised / value.clamp_min(1e-12)), raised)


def contrast(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return m + c (x - m) with m the mean of each channel."""
    (factor,) = constants
    mean = x.mean((2, 3), keepdim=True)
    return mean + factor * (x - mean)


def saturate(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return V (1 - S' t) for S' = clamp(c S + d): the image with saturation S' in place of S = (V - min) / V.

    t = (V - x) / (V - min) is what the hue says of each channel, V = max(R, G, B). A pixel without a hue counts as red,
    as it does in the published code.

    Raises:
        HoldfastError: images with one channel.
    """
    if x.shape[1] != 3:
        raise Unsupported(f"saturate: expected RGB images, got {x.shape[1]} channel; grey images have no saturation")
    factor, offset = constants
    value, least = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
    span = value - least
    red = x.new_tensor([0.0, 1.0, 1.0]).view(3, 1, 1)
    # As above, the clamps keep 0 / 0 out of pixels that are grey, or black
    hue = torch.where(span > 0, (value - x) / span.clamp_min(1e-12), red)
    saturation = (factor * span / value.clamp_min(1e-12) + offset).clamp(0, 1)
    return value * (1 - saturation * hue)


def pixelate(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the image made smaller, to ⌊c · side⌋, and as large as before, both with a box filter.

    As Pillow does, each of the four passes rounds to 8 bits, rows first: Y = ⌊A ⌊X Bᵀ⌉⌉.

    Raises:
        HoldfastError: images of which no pixel would be left.
    """
    (share,) = constants
    sides = x.shape[2:]
    small = [int(side * share) for side in sides]
    if min(small) < 1:
        raise too_small("pixelate", x, int(np.ceil(1 / share)))
    levels = (255 * x).round()
    for before, after in ((sides, small), (small, sides)):
        levels = _half_up(levels @ _box(before[1], after[1]).to(x).T)
        levels = _half_up(_box(before[0], after[0]).to(x) @ levels)
    return levels / 255


@lru_cache(16)
def _box(before: int, after: int) -> Float[Tensor, "after before"]:
    """Return the matrix of Pillow's box filter along one side: what it makes of the identity."""
    eye = PIL.Image.fromarray(np.eye(before, dtype=np.float32))
    return torch.from_numpy(np.array(eye.resize((before, after), PIL.Image.Resampling.BOX)))


def _half_up(x: Images) -> Images:
    return torch.floor(x + (0.5 + 1e-3))  # a mean of a few levels that is a half is one in spite of rounding


def jpeg_compression(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """The image that Pillow reads from the JPEG file of quality c that it writes.

    One image after another, because the file format *is* the codec: libjpeg takes about a millisecond for one of 224
    pixels, less than the cosine transforms of a batch take in torch, and gives the published pixels themselves.
    """
    (quality,) = constants
    # [B, H, W, C] bytes, as Pillow takes them
    levels = (255 * x).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    read = torch.stack([torch.from_numpy(_through_jpeg(image, int(quality))) for image in levels])
    return read.permute(0, 3, 1, 2).to(x) / 255


def _through_jpeg(levels: np.ndarray, quality: int) -> np.ndarray:
    file = BytesIO()
    PIL.Image.fromarray(levels.squeeze(-1) if levels.shape[-1] == 1 else levels).save(file, "JPEG", quality=quality)
    return np.array(open_picture(file, ("Jpeg",))).reshape(levels.shape)


@in_parts(2**18)
def elastic_transform(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return x bent by a random affine map, then by a smooth random field.

    The affine map takes three corners p of a square around the centre, two thirds of the shorter side s long, to
    p + s c₃ u with u uniform in [-1, 1]². The field is s c₁ times uniform numbers in [-1, 1] blurred with standard
    deviation s c₂ (cut off at three). Both sample bilinearly, as the published code does, but with exact
    coordinates, where its affine map may round them to 1/32 pixel.

    Raises:
        HoldfastError: images without a square around the centre.
    """
    size, blur, affine = (min(x.shape[2:]) * c for c in constants)
    if min(x.shape[2:]) < 3:
        raise too_small("elastic_transform", x, 3)
    height, width = x.shape[2:]
    square = min(height, width) // 3
    # The affine map, by three corners of the square, (x, y) each, and where they go
    corners = torch.tensor([[1, 1], [1, -1], [-1, -1]]) * square + torch.tensor([width // 2, height // 2])
    moved = corners + affine * (2 * rng.child("affine").uniform(3, 2).double() - 1)
    back = torch.linalg.solve(F.pad(moved, (0, 1), value=1.0), corners.double())  # what x, y and 1 add to the place
    # In grid_sample's coordinates, in which a side is 2 long between the
    # centres of its first and last pixel
    right, down, start = (2 * back[:, :, None] / torch.tensor([width - 1, height - 1])).to(x).unbind(1)
    columns, rows = torch.arange(width).to(x), torch.arange(height).to(x)
    # The map is linear in row and column: [B, H, 1, 2] + [B, 1, W, 2] takes
    # H + W products an image, not H W
    line, column = (start - 1)[:, None] + rows[:, None, None] * down[:, None], columns[:, None] * right
    # align_corners: reflected about the centres of the edge pixels, as OpenCV's REFLECT_101
    visible = F.grid_sample(x, line + column[:, None], "bilinear", "reflection", align_corners=True)
    # CIFAR's severity 1 has no field, and a deviation of 0 that no kernel can have
    if size == 0:
        return visible
    fields = _smooth(rng.child("field").uniform(2, height, width).to(x), blur)  # of u in [0, 1]; 2 u - 1 is meant
    # Pixel p is shown from p + size (2 u - 1), in coordinates where the
    # image is 2 wide from edge to edge
    places = x.new_empty(len(x), height, width, 2)
    for axis, (side, pixels) in enumerate(((width, columns), (height, rows[:, None]))):
        start = (2 * pixels + 1 - 2 * size) / side - 1
        torch.add(start, fields[:, axis], alpha=4 * size / side, out=places[..., axis])
    # Without align_corners: reflected about the image's edge itself, as scipy's "reflect"
    return F.grid_sample(visible, places, "bilinear", "reflection", align_corners=False)


def _smooth(
    fields: Float[Tensor, "batch two height width"], deviation: float
) -> Float[Tensor, "batch two height width"]:
    """Return fields blurred by a Gaussian that is cut off at three deviations; they are reflected at their edges."""
    for _ in range(2):  # rows, then columns
        matrix, index, weights = _gaussian(fields.shape[2], deviation)
        narrow = index.shape[1] < len(matrix) / 4  # then most of the matrix is zero
        fields = combine(fields, index, weights) if narrow else matrix.to(fields) @ fields
        fields = fields.mT
    return fields


@lru_cache(16)
def _gaussian(
    side: int, deviation: float
) -> tuple[Float[Tensor, "side side"], Int[Tensor, "side taps"], Float[Tensor, "side taps"]]:
    """Return the matrix of the blur along one side; and of each row, the places and values of its largest entries.

    As many as the kernel is long, which are all that are not zero where it is shorter than the side.
    """
    # What scipy makes of unit vectors, so that the reflection at the edge is in the matrix
    matrix = torch.from_numpy(scipy.ndimage.gaussian_filter1d(np.eye(side), deviation, 0, mode="reflect", truncate=3))
    weights, index = matrix.topk(min(2 * int(3 * deviation + 0.5) + 1, side), 1)
    return matrix, index, weights
