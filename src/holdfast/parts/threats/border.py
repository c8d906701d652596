"""Border: the image stands smaller in an even frame, as in screenshots and slides."""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Border(Corruption):
    """x at ⌊(1 - 2 share) H⌉ by ⌊(1 - 2 share) W⌉ pixels, at least 1, in the middle of an even grey of H by W pixels.

    Bilinear and antialiased, as thumbnails are made.

    Attributes:
        share: of each side that the frame takes at either end, in (0, 0.5).
        level: grey of the frame, 0 (black) to 1 (white).

    Source: the padding of Papakipos & Bitton (2022).

    Example:
        >>> Border(0.25).sample(torch.zeros(1, 1, 1, 4), Rng(0, ids=("a",))).flatten().tolist()
        [1.0, 0.0, 0.0, 1.0]
    """

    share: float = 0.1
    level: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share < 0.5:
            raise BadValue(f"border: share: expected a share of each side, in (0, 0.5), got {self.share:g}")
        if self.level > 1:
            raise BadValue(f"border: level: expected a grey from 0 to 1, got {self.level:g}")

    @property
    def title(self) -> str:
        """For example "border 10 %"."""
        return f"border {100 * self.share:g} %{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the framed images; nothing is drawn."""
        height, width = x.shape[2:]
        rows, columns = (max(1, round((1 - 2 * self.share) * side)) for side in (height, width))
        top, left = (height - rows) // 2, (width - columns) // 2
        framed = torch.full_like(x, self.level)
        inner = F.interpolate(x, [rows, columns], mode="bilinear", antialias=True, align_corners=False)
        # The filter's weights are positive and sum to 1 up to
        # rounding, which alone may leave [0, 1]
        framed[:, :, top : top + rows, left : left + columns] = inner.clamp(0, 1)
        return framed
