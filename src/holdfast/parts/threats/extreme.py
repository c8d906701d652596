"""Extreme: the end of a noise's range, such as the largest turn of a rotation."""

from dataclasses import dataclass
from typing import Literal

import torch

from holdfast.core import Corruption, Images, Noise, Rng
from holdfast.core.registry import part_name, spec
from holdfast.parts.threats.rotation import Rotation
from holdfast.runtime.errors import BadValue

ENDS = {"upper": "+", "lower": "−"}

SIGNS = {"degrees": "°"}
"""Units that are written behind an amount, by its name."""

FEW = 2
"""Numbers that a draw takes at most: of noise in single pixels the ends of the range are no picture."""


@dataclass(frozen=True)
class Extreme(Corruption):
    """push(x, ±∞): what a noise of one amount makes of x at an end of its range, the same for every image.

    Rotation by its largest angle, brightness at its largest shift; a translation goes to its corner.

    Attributes:
        noise: rotation, translation, brightness, contrast, hue, or another whose draw takes one or two numbers.
        end: "upper": anticlockwise, down and to the right, brighter, more contrast; "lower": the other way.

    Source: worst cases over one parameter, as in Engstrom et al. (2019).

    Example:
        >>> from holdfast.parts.threats.brightness import Brightness
        >>> darker = Extreme(Brightness(0.25), "lower")
        >>> darker.title, darker.sample(torch.full((1, 1, 1, 1), 0.5), Rng(0, ids=("a",))).item()
        ('brightness −0.25', 0.25)
    """

    noise: Noise = Rotation()
    end: Literal["upper", "lower"] = "upper"

    def __post_init__(self) -> None:
        # Three channels, because hue refuses grey images
        if (count := self.noise.numbers(torch.zeros(1, 3, 4, 4))) > FEW:
            raise BadValue(
                f"extreme: noise: expected one of one or two numbers, such as rotation or brightness, got "
                f"{part_name(self.noise)}, a draw of which takes {count} for 4 x 4 pixels"
            )

    @property
    def title(self) -> str:
        """For example "rotation +15°"."""
        amounts = {name: amount for name, amount in spec(self.noise).items() if isinstance(amount, float)}
        written = " ".join(f"{ENDS[self.end]}{amount:g}{SIGNS.get(name, '')}" for name, amount in amounts.items())
        return f"{part_name(self.noise)} {written}{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images at the end of the range; nothing is drawn."""
        # Noises take z through 2Φ(z) - 1, so infinity is the very end of
        # the range and not a draw near it
        far = torch.inf if self.end == "upper" else -torch.inf
        return self.noise.push(x, x.new_full((len(x), 1, self.noise.numbers(x)), far))[:, 0]
