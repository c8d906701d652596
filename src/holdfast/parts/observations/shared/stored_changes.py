"""Changes of images as they are stored to be drawn: a byte for each number."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Album, Images, Positions

LEVELS = 127


def pack_changes(delta: Images, positions: Positions) -> dict[str, Tensor]:
    """Return changes to be stored, on the CPU; a number loses at most 1/254 of the largest one of its image.

    `gallery.position` [K]; `gallery.largest` [K], the largest absolute value of the change; `gallery.change`
    [K, C, H, W], the change in 127ths of it.

    Args:
        delta: the changes, in pixels.
        positions: where their images stand in the population.
    """
    delta = delta.float().cpu()
    largest = delta.flatten(1).abs().amax(1)
    # An image that did not change has a largest number of 0: 0 / tiny stays 0
    levels = delta / largest.clamp_min(torch.finfo(torch.float32).tiny).view(-1, 1, 1, 1) * LEVELS
    return {
        "gallery.position": positions.cpu(),
        "gallery.largest": largest,
        "gallery.change": levels.round().to(torch.int8),
    }


def rows_of(results: Mapping[str, Tensor]) -> dict[int, int]:
    """Return in which row the change of an image is stored, by its position in the population."""
    return {int(position): row for row, position in enumerate(results["gallery.position"])}


def unpack_change(results: Mapping[str, Tensor], row: int) -> tuple[float, Float[Tensor, "channels height width"]]:
    """Return the largest absolute value of a stored change, and the change in units of it."""
    return float(results["gallery.largest"][row]), results["gallery.change"][row].float() / LEVELS


def write_change(results: Mapping[str, Tensor], position: int, album: Album, name: str) -> tuple[float, dict[str, str]]:
    """Write pictures of an image, of the image changed, and of the change; return its largest number, and the files.

    The change is stored in units of its largest number: in the third picture that is white or black.

    Args:
        results: where the change is stored.
        position: of the image.
        album: the images, and where files go.
        name: how the names of the files begin.
    """
    x, (largest, share) = album.picture(position), unpack_change(results, rows_of(results)[position])
    shown = {"clean": x, "attacked": x + largest * share, "difference": 0.5 + share / 2}
    files = {kind: f"{name}-{kind}.png" for kind in shown}
    for kind, pixels in shown.items():
        album.files.write_picture(files[kind], pixels)
    return largest, files
