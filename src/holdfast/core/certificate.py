"""The worst case from above: margins, and certifiers that prove what no image of a ball can fall below."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.core.encoder import Encoder, Images, Reps
from holdfast.core.threat import Ball, PerImage
from holdfast.runtime.checked import Checked

Rows = Float[Tensor, "batch rows"]


@dataclass(frozen=True)
class Margin:
    """Linear functions of the representation, several rows for every image: m(x') = weights · f(x') + bias.

    Attributes:
        weights: [B, R, D].
        bias: [B, R].
    """

    weights: Float[Tensor, "batch rows dim"]
    bias: Rows

    def __call__(self, reps: Reps) -> Rows:
        """Return the margins of some representations."""
        return (self.weights @ reps[..., None]).squeeze(-1) + self.bias

    def to(self, kind: torch.dtype | torch.device | Tensor) -> "Margin":
        """Return the margin in another precision, on another device, or in those of a tensor."""
        return Margin(self.weights.to(kind), self.bias.to(kind))

    def part(self, images: slice) -> "Margin":
        """Return the margins of some images."""
        return Margin(self.weights[images], self.bias[images])


@dataclass(frozen=True)
class Bound:
    """What a certifier proves: no image of the ball has a margin below `lower`.

    Attributes:
        lower: [B, R]; in the units of the margin.
        vacuous: whether it says nothing: not finite, or no better than bounds of the representation's range, [B, R].
        slack: rounding that was allowed for (already subtracted from `lower`), [B, R].
        confidence: 1 for a proof.
        about: whose margin it is.
    """

    lower: Rows
    vacuous: Bool[Tensor, "batch rows"]
    slack: Rows
    confidence: float = 1.0
    about: Literal["the encoder", "the smoothed encoder"] = "the encoder"


class Certifier(metaclass=Checked):
    """A proof about all images of a ball at once: the worst case from above; a frozen dataclass."""

    @abstractmethod
    def __call__(self, encoder: Encoder, margin: Margin, x: Images, ball: Ball, radii: PerImage | None = None) -> Bound:
        """Bound the margins of every image from below.

        Args:
            encoder: the encoder.
            margin: what to bound, rows for each image.
            x: clean images in [0, 1].
            ball: where x' may be.
            radii: another radius than the ball's for each image, in pixels, [B].

        Raises:
            HoldfastError: a network that cannot be traced or bounded; the error names the layer.
        """
