"""The worst case from above: margins, and certifiers that prove what no image of a ball can fall below."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Bool
from torch import Tensor

from holdfast.core.encoder import Encoder, Images
from holdfast.core.threat import Ball, PerImage
from holdfast.numerics.bounds.margin import Margin, Rows
from holdfast.numerics.bounds.network import Network
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import Unsupported


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
    """A proof about all images of a ball at once: the worst case from above; a frozen dataclass.

    Attributes:
        differentiable: whether its bounds can be learned from, see `bounds_of`.
    """

    differentiable: ClassVar[bool] = False

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

    def bounds_of(self, network: Network, x: Images, ball: Ball, radii: PerImage) -> Callable[[Margin], Rows]:
        """Return the lower bounds of margins as a function whose gradients flow to the weights of a traced network.

        Of a network in float32 they are the bounds without what a proof allows for rounding.

        Raises:
            HoldfastError: a certifier whose bounds have no gradient.
        """
        raise Unsupported("expected a certifier whose bounds can be learned from; choose crown_ibp or interval")
