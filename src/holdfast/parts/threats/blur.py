"""Blur: the image is out of focus, or was enlarged from a smaller one."""

from dataclasses import dataclass

from holdfast.core import Corruption, Images, Rng
from holdfast.parts.threats.imagenet_c.rows import gaussian
from holdfast.runtime.checked import Positive


@dataclass(frozen=True)
class Blur(Corruption):
    """x convolved with a Gaussian of σ = share · min(H, W) pixels, cut off at 4 σ; beyond its edge the edge goes on.

    A share of the side means the same to images of every size.

    Attributes:
        share: σ as a share of the shorter side, positive.

    Source: the Gaussian blur of Hendrycks & Dietterich (2019), whose σ are 1, 2, 3, 4 and 6 pixels of 224.

    Example:
        >>> board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(4, 4).view(1, 1, 8, 8)
        >>> Blur(0.2).sample(board, Rng(0, ids=("a",))).std().item() < 0.1  # fine detail is gone
        True
    """

    share: Positive = 0.05

    @property
    def title(self) -> str:
        """For example "blur 5 %"."""
        return f"blur {100 * self.share:g} %{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the blurred images; nothing is drawn."""
        # One σ for both directions, or a wide image would be smeared more sideways than up and down
        return gaussian(x, self.share * min(x.shape[2:])).clamp(0, 1)
