"""Images of one encoder as another one takes them: differentiably, of its size and with its channels."""

from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.core.encoder import Encoder

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in grey (ITU-R BT.601), as pictures are converted."""


class Fit(nn.Module):
    """Pixels of one encoder's images as another one takes them, differentiably: bilinear with antialiasing.

    Args:
        channels: of the other encoder: grey is repeated, colour becomes its luma.
        size: (height, width) of the other encoder.
    """

    def __init__(self, channels: int, size: tuple[int, int]):
        super().__init__()
        self.channels, self.size = channels, size

    def extra_repr(self) -> str:
        """Return what decides the pixels, for fingerprints."""
        return f"channels={self.channels}, size={self.size}"

    def forward(self, x: Tensor) -> Tensor:
        """Return [B, C', H', W'] of [B, C, H, W]."""
        if x.shape[1] == 3 and self.channels == 1:
            x = (x * x.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
        elif x.shape[1] == 1 < self.channels:
            x = x.expand(-1, self.channels, -1, -1)
        if x.shape[2:] != self.size:
            x = F.interpolate(x, self.size, mode="bilinear", antialias=True, align_corners=False)
        return x


def fit_to(encoder: Encoder, shape: tuple[int, int, int]) -> Fit | None:
    """Return what makes images of a shape, (channels, height, width), those of an encoder; None where they are."""
    own = len(encoder.mean) if len(encoder.mean) > 1 else encoder.geometry and encoder.geometry.channels
    wanted = own or shape[0], encoder.geometry.size if encoder.geometry else shape[1:]
    return None if wanted == (shape[0], shape[1:]) else Fit(*wanted)
