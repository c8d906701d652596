"""The pixels of pairs that somebody names: picture files, or the ids of a data set, as the encoder sees them."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Encoder, HoldfastError, Images
from holdfast.runtime.errors import Mismatch, Missing, unknown
from holdfast.runtime.guess import path_meant
from holdfast.sources.data import ImageSet, open_images, render
from holdfast.sources.data.shared.pictures import decode


class Pictures:
    """Where the images of pairs come from.

    Args:
        encoder: for which they are rendered.
        data: the data set whose ids their names are; None: they are files.
    """

    def __init__(self, encoder: Encoder, data: str | None):
        self._encoder, self._data = encoder, data

    def read(self, names: Sequence[str], folder: Path) -> Images:
        """Return images by their names, [N, C, H, W].

        Args:
            names: ids, or the paths of files.
            folder: where relative paths begin.

        Raises:
            HoldfastError: images that cannot be read, or that have several sizes.
        """
        # Data sets render their images themselves, for the encoder
        if self._data is not None:
            places = [self._place(name) for name in names]
            return self._images.pick(places)
        return stack([self._render(name, folder / Path(name).expanduser()) for name in names], names)

    @cached_property
    def _images(self) -> ImageSet:
        images = open_images(str(self._data))
        return images.with_geometry(self._encoder.geometry or images.common_geometry)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self._images.ids)}

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise unknown(f"image of {self._data}", name, self._places)
        return self._places[name]

    def _render(self, name: str, file: Path) -> Float[Tensor, "channel height width"]:
        # Somebody who names an id forgets most easily to say of which data
        if not file.exists():
            known = "; ids of a data set need --data" if self._data is None and not file.suffix else ""
            raise Missing(f"no picture {name!r}: {path_meant(file, 'check the path')}{known}")
        try:
            return render(decode(file, name), self._encoder.geometry)
        except HoldfastError as error:
            # What decodes names the file, what renders does not
            text = str(error)
            raise error.retell(text if repr(name) in text else f"image {name!r}: {text}") from error


def stack(pixels: Sequence[Float[Tensor, "channel height width"]], names: Sequence[str]) -> Images:
    """Return images as one batch; each must have the shape of the first."""
    for image, name in zip(pixels, names, strict=True):
        if image.shape != pixels[0].shape:
            raise Mismatch(
                f"{name!r}: expected {_times(pixels[0])} pixels as {names[0]!r} has, got {_times(image)}; an encoder "
                "without a size of its own compares images of one size: resize one of them"
            )
    return torch.stack(list(pixels))


def _times(image: Tensor) -> str:
    return "x".join(map(str, image.shape))
