"""Images corrupted at their own size, before they are resized for an encoder."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import PIL.Image
import torch
from torch import Tensor

from holdfast.core import Corruption, Geometry, Rng
from holdfast.sources.data.shared.geometry import (
    Conversion,
    Pixels,
    convert,
    fit,
    placement,
    resize_channels,
    resize_picture,
)

TOGETHER = 2**23
"""Values of images that are corrupted together, about (32 MiB)."""


class OwnImage(NamedTuple):
    """An image at its own size, and what becomes of it.

    Attributes:
        pixels: in [0, 1], with the channels in which the encoder sees it.
        placement: how it gets the encoder's size; None: it has it.
        resize: how corrupted pixels are then resized: as those of a picture, or of an array.
    """

    pixels: Pixels
    placement: Geometry | None
    resize: Callable[[Pixels, Geometry], Pixels]


def own_image(image: PIL.Image.Image | Tensor, conversion: Conversion, geometry: Geometry | None) -> OwnImage:
    """Return a `standard` picture or pixels at their own size; `fit` and `convert` would resize them."""
    if isinstance(image, PIL.Image.Image):
        channels = conversion.channels or (geometry.channels if geometry else None)
        own = OwnImage(fit(image, Conversion(None, channels), None), placement(conversion, geometry), resize_picture)
    else:
        own = OwnImage(
            convert(image, Conversion(None, conversion.channels), None), placement(conversion, None), resize_channels
        )
    # What has the encoder's size already is not resized
    stays = own.placement is None or own.placement.keeps(*own.pixels.shape[1:])
    return own._replace(placement=None) if stays else own


def map_to_own_size(own: OwnImage, values: Pixels) -> OwnImage:
    """Return a map of what the encoder sees, [1, H, W], at the image's own size; NaN of an image that is cropped."""
    height, width = own.pixels.shape[1:]
    if own.placement is None:
        return own._replace(pixels=values)
    # Where something is cut off, the map says nothing about it
    if own.placement.crops(height, width):
        return OwnImage(torch.full_like(values, torch.nan), None, resize_channels)
    # Back to the size of the image, and after the corruption to that of the encoder
    back = Geometry((height, width))
    return own._replace(pixels=resize_channels(values, back), resize=resize_channels)


def corrupt_images(
    images: Iterable[OwnImage], corruption: Corruption, rng: Rng, device: torch.device
) -> Iterator[Pixels]:
    """Yield images after a corruption at their own size and in the encoder's; those of one size are corrupted together.

    Args:
        images: in the order of the ids that `rng` is bound to.
        corruption: what befalls them.
        rng: random numbers bound to their ids.
        device: where they are corrupted.
    """
    block: list[OwnImage] = []
    start = 0
    for image in images:
        # A block at a time: full-size pictures would not fit together
        if block and sum(own.pixels.numel() for own in block) + image.pixels.numel() > TOGETHER:
            yield from _block(block, corruption, rng.at(list(rng.ids[start : start + len(block)])), device)
            start, block = start + len(block), []
        block.append(image)
    yield from _block(block, corruption, rng.at(list(rng.ids[start : start + len(block)])), device)


def _block(block: list[OwnImage], corruption: Corruption, rng: Rng, device: torch.device) -> list[Pixels]:
    # Images of one size, of which all or none are resized
    groups: dict[object, list[int]] = {}
    for number, image in enumerate(block):
        groups.setdefault((image.pixels.shape, image.placement is None), []).append(number)
    out = [image.pixels for image in block]
    for numbers in groups.values():
        # [n, C, H, W]
        x = torch.stack([block[number].pixels for number in numbers]).to(device)
        own = rng.at([rng.ids[number] for number in numbers])
        # cells need not fill an image that is resized in any case
        tile = 1 if block[numbers[0]].placement is None else corruption.tile
        # The middle, where a tile must fill what it corrupts
        rows, columns = (_middle(side, tile) for side in x.shape[2:])
        # In place: `stack` has copied
        x[:, :, rows, columns] = corruption.sample(x[:, :, rows, columns], own)
        # the size of the encoder's input
        for number, pixels in zip(numbers, x.cpu(), strict=True):
            wanted = block[number].placement
            out[number] = pixels if wanted is None else block[number].resize(pixels, wanted)
    return out


def _middle(side: int, tile: int) -> slice:
    """Return the largest part in the middle of a side that is a multiple of `tile`; all of a side that has none."""
    # A side shorter than a tile is taken whole
    rest = side % tile if side >= tile else 0
    return slice(rest // 2, side - (rest - rest // 2))
