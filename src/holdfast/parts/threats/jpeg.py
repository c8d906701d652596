"""JPEG: the image is saved as a JPEG file, and read again."""

from dataclasses import dataclass

from holdfast.core import Corruption, Images, Rng
from holdfast.parts.threats.imagenet_c.digital import jpeg_compression
from holdfast.runtime.errors import BadValue, Unsupported


@dataclass(frozen=True)
class Jpeg(Corruption):
    """The image that is read from the JPEG file, of a quality, that Pillow writes of ⌊255 x⌉.

    Attributes:
        quality: 1 (smallest file) to 95; cameras write 90 and more, the web 75, messengers less.

    Source: ITU-T T.81; the tables are scaled as libjpeg does.

    Example:
        >>> x = torch.linspace(0, 1, 64).view(1, 1, 8, 8)
        >>> [bool((Jpeg(q).sample(x, Rng(0, ids=("a",))) - x).abs().max() > 0.05) for q in (95, 5)]
        [False, True]
    """

    quality: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.quality <= 95:
            raise BadValue(f"jpeg: quality: expected a whole number from 1 to 95, got {self.quality}")

    @property
    def title(self) -> str:
        """For example "JPEG 50"."""
        return f"JPEG {self.quality}{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images from the files; nothing is drawn.

        Raises:
            HoldfastError: images that are neither grey nor RGB.
        """
        if x.shape[1] not in (1, 3):
            raise Unsupported(f"jpeg: expected grey or RGB images, got {x.shape[1]} channels; leave this threat out")
        return jpeg_compression(x, rng, (self.quality,))
