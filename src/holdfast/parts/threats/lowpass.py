"""Low-pass: only the low frequencies of the Fourier transform stay."""

from dataclasses import dataclass

import torch

from holdfast.core import Corruption, Images, Rng
from holdfast.runtime.checked import Count, Positive


@dataclass(frozen=True)
class Lowpass(Corruption):
    """Re F⁻¹(F(x) · [|frequency| < radius / side]), clamped to [0, 1]; frequencies in cycles per pixel.

    On images of side x side pixels these are the components within `radius` of the centre of the transform. Other
    sizes keep the same frequencies: a circle of radius · H / side on square images, an ellipse with half-axes
    radius · H / side and radius · W / side on others. A component at the radius itself goes, as in the implementation
    that the paper names (Wang et al., 2020). Above side / √2 everything stays.

    Attributes:
        radius: of the circle, in cycles per `side` pixels, positive.
        side: the size of image that the radius is meant for, in pixels.

    Source: Petrov & Kwiatkowska (2022), appendix C.

    Example:
        >>> from holdfast.core import Rng
        >>> board = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(4, 4).view(1, 1, 8, 8)
        >>> Lowpass(radius=2, side=8).sample(board, Rng(0, ids=("a",))).std().item() < 1e-3  # fine detail is gone
        True
    """

    radius: Positive = 50.0
    side: Count = 224

    @property
    def title(self) -> str:
        """For example "low-pass 50/224"."""
        return f"low-pass {self.radius:g}/{self.side}{self.resize_suffix}"

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the images without their high frequencies; nothing is drawn."""
        height, width = x.shape[2:]
        rows = torch.fft.fftfreq(height, 1 / self.side, dtype=torch.float64)  # in cycles per `side` pixels
        columns = torch.fft.rfftfreq(width, 1 / self.side, dtype=torch.float64)
        # The half of the spectrum that rfft2 gives, [H, W/2 + 1]; with 1e-12 a component at the
        # radius goes even where its sum of squares rounds below
        kept = rows[:, None].square() + columns.square() < self.radius**2 * (1 - 1e-12)
        return torch.fft.irfft2(torch.fft.rfft2(x) * kept.to(x), (height, width)).clamp(0, 1)
