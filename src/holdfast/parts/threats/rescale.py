"""Rescale: the image is made smaller, and brought back to its size."""

from dataclasses import dataclass

from torch.nn import functional as F

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Rescale(Corruption):
    """x at ⌊scale · H⌉ by ⌊scale · W⌉ pixels, at least 1, and back at H by W; both bilinear, the first antialiased.

    Attributes:
        scale: of each side, in (0, 1).

    Source: the filter of thumbnails: Pillow's bilinear (triangle) one.

    Example:
        >>> board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(4, 4).view(1, 1, 8, 8)
        >>> Rescale(0.5).sample(board, Rng(0, ids=("a",))).std().item() < 0.1  # fine detail is gone
        True
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1:
            raise BadValue(f"rescale: scale: expected a share of each side, in (0, 1), got {self.scale}")

    @property
    def title(self) -> str:
        """For example "rescaled to 50 %"."""
        return f"rescaled to {100 * self.scale:g} %{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images at their size, without what the smaller ones had no room for; nothing is drawn."""
        # Antialiased on the way down, or the smaller image would keep
        # aliases of what it has no room for
        small = [max(1, round(self.scale * side)) for side in x.shape[2:]]
        smaller = F.interpolate(x, small, mode="bilinear", antialias=True, align_corners=False)
        return F.interpolate(smaller, x.shape[2:], mode="bilinear", align_corners=False).clamp(0, 1)
