"""Gamma distortion: a power of every pixel, cut to 8 bits."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.checked import Positive


@dataclass(frozen=True)
class Gamma(Corruption):
    """⌊255 · (k / 255)^γ⌋ / 255 of every pixel's 8-bit level k = ⌊255 x⌉.

    The formula is one of 8-bit levels. In the [0, 1] images of an audit k / 255 is a rounded number, which may lie just
    below its level and would lose it, and resized images lie between levels; so x is taken to the nearest level first.
    γ = 1 leaves 8-bit images as they are. Above 1 images are darker, below 1 brighter, and some levels fall together.

    Attributes:
        gamma: γ, positive.

    Source: Zhong et al. (2022), section 2.2.

    Example:
        >>> from holdfast.core import Rng
        >>> Gamma(0.5).sample(torch.full((1, 1, 1, 1), 0.25), Rng(0, ids=("a",))).item()
        0.49803921580314636
    """

    gamma: Positive = 0.2

    @property
    def title(self) -> str:
        """For example "γ 0.2"."""
        return f"γ {self.gamma:g}{self.resize_suffix}"

    @property
    def table(self) -> Float[Tensor, "256"]:
        """What becomes of each level, as pixels in [0, 1]: [256].

        Computed in float64; a power that is a whole level but for rounding is one: 255 · (k / 255) may fall short of k.
        """
        levels = torch.arange(256, dtype=torch.float64)
        return ((255 * (levels / 255) ** self.gamma + 1e-9).floor() / 255).float()

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the distorted images; nothing is drawn."""
        # Looked up and not computed pixel by pixel, so that a level becomes
        # the same one wherever it stands
        return self.table.to(x)[(255 * x).round().long()]
