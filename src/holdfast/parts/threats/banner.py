"""Banner: a bar across the bottom of the image, such as captions, watermarks and players lay over it."""

from dataclasses import dataclass

import torch

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.errors import BadValue


@dataclass(frozen=True)
class Banner(Corruption):
    """(1 - opacity) x + opacity · level in the lowest ⌈share · H⌉ rows, and x above them.

    Attributes:
        share: of the rows, in (0, 1].
        opacity: of the bar, in (0, 1].
        level: its grey, 0 (black) to 1 (white).

    Source: the overlays of Papakipos & Bitton (2022).

    Example:
        >>> Banner(0.5, opacity=0.5, level=1.0).sample(torch.zeros(1, 1, 2, 1), Rng(0, ids=("a",))).flatten().tolist()
        [0.0, 0.5]
    """

    share: float = 0.2
    opacity: float = 0.8
    level: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("share", self.share), ("opacity", self.opacity)):
            if not 0 < value <= 1:
                raise BadValue(f"banner: {name}: expected a share in (0, 1], got {value:g}")
        if self.level > 1:
            raise BadValue(f"banner: level: expected a grey from 0 to 1, got {self.level:g}")

    @property
    def title(self) -> str:
        """For example "banner 20 %"."""
        return f"banner {100 * self.share:g} %{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images below the bar; nothing is drawn."""
        height = x.shape[2]
        # The rows above the bar, H (1 - share), cut down to a whole number; 1e-9
        # forgives the product's rounding
        covered = torch.arange(height, device=x.device).view(-1, 1) >= int(height * (1 - self.share) + 1e-9)
        return torch.where(covered, (1 - self.opacity) * x + self.opacity * self.level, x)
