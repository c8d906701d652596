"""Chain: several corruptions, one after the other."""

import math
from dataclasses import dataclass

from holdfast.core import Corruption, Images, Rng
from holdfast.parts.threats.border import Border
from holdfast.parts.threats.jpeg import Jpeg
from holdfast.parts.threats.rescale import Rescale
from holdfast.runtime.errors import BadValue, Conflict


@dataclass(frozen=True)
class Chain(Corruption):
    """c_k(… c_2(c_1(x))) for corruptions c_1 to c_k, all at the resolution of the chain.

    By default a screenshot that was passed on: smaller and back, in a frame, saved as JPEG.

    Attributes:
        links: the corruptions, the first one first.

    Source: chains of edits as in Douze et al. (2021).

    Example:
        >>> Chain((Rescale(0.5), Jpeg(50))).title
        'rescaled to 50 % + JPEG 50'
    """

    links: tuple[Corruption, ...] = (Rescale(0.5), Border(0.1), Jpeg(60))

    def __post_init__(self) -> None:
        if not self.links:
            raise BadValue("chain: links: expected one corruption or more, got none")
        # Whoever resizes images asks the chain alone, so a link's own resolution would be ignored
        if self.resolution == "image" and any(link.resolution == "encoder" for link in self.links):
            raise Conflict('chain: a link has resolution = "encoder": give it to the chain, not to its links')

    @property
    def title(self) -> str:
        """For example "rescaled to 50 % + JPEG 50"."""
        return " + ".join(link.title for link in self.links) + self.resize_suffix

    @property
    def tile(self) -> int:
        """What the sides that all links need are multiples of."""
        return math.lcm(*(link.tile for link in self.links))

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images after the last link.

        Raises:
            HoldfastError: images that one of them does not fit.
        """
        for place, link in enumerate(self.links):
            # The place is part of the stream's name, so that two links of
            # one kind draw different numbers
            x = link.sample(x, rng.child("chain", place))
        return x
