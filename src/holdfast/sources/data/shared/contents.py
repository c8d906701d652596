"""What an audit keeps of an image that it has read: a digest of its content, and a thumbnail."""

import hashlib
from typing import NamedTuple

import PIL.Image
from jaxtyping import Float
from torch import Tensor

from holdfast.core.threat import Shape
from holdfast.sources.data.shared.thumbnails import Thumbnail, thumbnail, thumbnails

_STRIP = 256


class Traits(NamedTuple):
    """What many images have in common.

    Attributes:
        shape: (channels, height, width) of their own.
        is_picture: whether they are pictures, and not pixels.
        peculiarities: of pictures, see `peculiarities`.
    """

    shape: Shape
    is_picture: bool = False
    peculiarities: tuple[str, ...] = ()


class Content(NamedTuple):
    """What is kept of an image that has been read: the SHA-256 of its content, a thumbnail, its traits."""

    digest: bytes
    thumbnail: Thumbnail
    traits: Traits

    @classmethod
    def of(cls, image: PIL.Image.Image | Tensor, peculiarities: tuple[str, ...] = ()) -> "Content":
        """Return the content of a `standard` picture or of pixels in [0, 1]."""
        if isinstance(image, Tensor):
            traits = Traits((image.shape[0], image.shape[1], image.shape[2]))
        else:
            shape = 3 if image.mode == "RGB" else 1, image.height, image.width
            traits = Traits(shape, True, peculiarities)
        return cls(digest_of(image), thumbnail(image), traits)


def contents_of(pixels: Float[Tensor, "n channels height width"]) -> list[Content]:
    """Return the contents of images of one shape, contiguous pixels in [0, 1]: as of one after the other."""
    # The heading is hashed once, and its state copied for each image
    start = hashlib.sha256(_heading(pixels[0]))
    digests = []
    for image in pixels.numpy():
        digest = start.copy()
        digest.update(image)
        digests.append(digest.digest())
    _, channels, height, width = pixels.shape
    traits = Traits((channels, height, width))
    return [Content(*own, traits) for own in zip(digests, thumbnails(pixels), strict=True)]


def _heading(pixels: Tensor) -> bytes:
    return f"pixels {tuple(pixels.shape)}".encode()


def digest_of(image: PIL.Image.Image | Tensor) -> bytes:
    """Return the SHA-256 of the content of a `standard` picture or of pixels in [0, 1]."""
    if isinstance(image, Tensor):
        digest = hashlib.sha256(_heading(image))
        digest.update(image.contiguous().numpy().data)
        return digest.digest()
    digest = hashlib.sha256(f"{image.mode} {image.size}".encode())
    # One strip is the whole picture, and needs no crop
    if image.height <= _STRIP:
        digest.update(image.tobytes())
        return digest.digest()
    for top in range(0, image.height, _STRIP):  # a copy of the whole picture may be large
        digest.update(image.crop((0, top, image.width, min(top + _STRIP, image.height))).tobytes())
    return digest.digest()
