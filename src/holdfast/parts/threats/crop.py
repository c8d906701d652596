"""Crop: only the middle of the image is left, at the size of the whole."""

from dataclasses import dataclass

import torch

from holdfast.core import Corruption, Images, Rng
from holdfast.parts.threats.shared.warp import warp
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Crop(Corruption):
    """x'(p) = x(side · p), with p from the centre: the middle of the image, enlarged to its size, bilinearly.

    Attributes:
        side: what is left of each side, in (0, 1); 0.8 leaves 64 % of the area.

    Source: the centre crop of Pizzi et al. (2022), and others.

    Example:
        >>> x = torch.arange(4.0).div(3).expand(1, 1, 4, 4)
        >>> [round(v, 3) for v in Crop(0.5).sample(x, Rng(0, ids=("a",)))[0, 0, 0].tolist()]
        [0.25, 0.417, 0.583, 0.75]
    """

    side: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.side < 1:
            raise BadValue(f"crop: side: expected the share of each side that is left, in (0, 1), got {self.side}")

    @property
    def title(self) -> str:
        """For example "cropped to 80 %"."""
        return f"cropped to {100 * self.side:g} %{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the enlarged middle of the images; nothing is drawn."""
        # What the result shows at a place p from the centre lies at
        # side · p: a smaller window, enlarged
        turn = self.side * torch.eye(2).to(x).expand(len(x), 1, 2, 2)
        return warp(x, turn, x.new_zeros(len(x), 1, 2))[:, 0]
