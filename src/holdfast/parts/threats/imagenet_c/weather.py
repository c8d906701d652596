"""Common corruptions: weather."""

import math

from torch.nn import functional as F

from holdfast.core import Images, Rng
from holdfast.parts.threats.imagenet_c.batches import too_small
from holdfast.parts.threats.imagenet_c.frost import crops, ice
from holdfast.parts.threats.imagenet_c.motion import move
from holdfast.parts.threats.imagenet_c.plasma import plasma


def snow(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return the image paled towards 1.5 · luminance + .5, with two layers of falling flakes, one turned by 180°.

    Flakes are normal numbers N(c₁, c₂), enlarged c₃ times, those above c₄, smeared downwards at an angle uniform in
    [-135°, -45°] over the radius c₅ with deviation c₆; c₇ of the image stays. As in the published code, the flakes have
    8 bits before and after they are smeared.

    Raises:
        HoldfastError: images too small to enlarge anything in them.
    """
    mean, deviation, zoom, threshold, radius, blur, stays = constants
    # The middle of the noise that, enlarged, covers the image; sizes round as scipy's zoom does
    kept = [math.ceil(side / zoom) for side in x.shape[2:]]
    if min(kept) < 2:
        raise too_small("snow", x, int(zoom) + 1)
    results = [round(count * zoom) for count in kept]
    top, left = ((side - count) // 2 for side, count in zip(x.shape[2:], kept, strict=True))
    flakes = mean + deviation * rng.child("flakes").normal(1, *x.shape[2:]).to(x)
    flakes = flakes[:, :, top : top + kept[0], left : left + kept[1]]
    # align_corners, since scipy's zoom takes the first pixel to the first and the last to the last
    flakes = F.interpolate(flakes, results, mode="bilinear", align_corners=True)
    top, left = ((count - side) // 2 for side, count in zip(x.shape[2:], results, strict=True))
    flakes = flakes[:, :, top : top + x.shape[2], left : left + x.shape[3]]
    flakes = flakes.where(flakes >= threshold, 0).clamp(0, 1)
    angles = -135 + 90 * rng.child("angle").uniform(1)[:, 0]
    # The published code passes the flakes through 8-bit files: cut before
    # ImageMagick smears them, rounded after
    fallen = move((255 * flakes).floor(), angles, int(radius), blur).round() / 255
    # Paled towards a bright grey, but never darker than the image is
    pale = 1.5 * (x * x.new_tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True) + 0.5
    return stays * x + (1 - stays) * x.maximum(pale) + fallen + fallen.flip(2, 3)


def fog(x: Images, rng: Rng, constants: tuple[float, ...]) -> Images:
    """Return (x + c₁ clouds) · m / (m + c₁) with m = max x, and clouds in [0, 1] whose detail decays by c₂.

    The clouds are a corner of a plasma as wide as the next power of two: 256 for 224 pixels, 32 for 32.

    Raises:
        HoldfastError: images with sides of one pixel.
    """
    amount, decay = constants
    height, width = x.shape[2:]
    if max(height, width) < 2:
        raise too_small("fog", x, 2)
    # The diamond-square algorithm halves its step down to 1, so it needs a power of two
    side = 1 << (max(height, width) - 1).bit_length()
    clouds = plasma(2 * rng.uniform(side, side).to(x) - 1, decay)[:, None, :height, :width]
    brightest = x.amax((1, 2, 3), keepdim=True)
    # Scaled so that nothing is brighter than the image's brightest pixel was
    return (x + amount * clouds) * (brightest / (brightest + amount))


def frost(x: Images, rng: Rng, constants: tuple[float, ...], textures: str = "") -> Images:
    """Return c₁ x + c₂ ice, where ice is a random piece of a photograph of frost.

    The published photographs are not ours to give away. Without `textures` the ice is drawn: its colours, contrasts and
    spectrum are like theirs, its crystals are not. Numbers measured with it are near the published ones, not equal.

    Args:
        x: RGB images.
        rng: random numbers bound to their ids.
        constants: the two weights, and the scale at which photographs are used: 1 in ImageNet-C, a fifth in CIFAR-10-C.
        textures: a folder of photographs.

    Raises:
        HoldfastError: a folder without pictures.
    """
    image, weight, scale = constants
    return image * x + weight * (crops(x, rng, textures, scale) if textures else ice(x, rng))
