"""Networks that take colours in the order blue, green, red."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

IN_WORDS = "blue, green, red: channels are reversed before the network"


class Reversed(nn.Module):
    """Gives a network its channels in reverse order: [B, C, H, W], RGB, as BGR.

    A 1 × 1 convolution of ones and zeros, which is exact, and known to every certifier, exporter and verifier. Its
    weight is a buffer: fingerprints tell the two orders apart, and no training moves it.

    Args:
        network: what is run on them.
        channels: how many.

    Example:
        >>> Reversed(nn.Identity(), 3)(torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)).flatten()
        tensor([0.3000, 0.2000, 0.1000])
    """

    def __init__(self, network: nn.Module, channels: int):
        super().__init__()
        self.network = network
        self.order: Tensor
        # [C, C, 1, 1]: row c has its 1 at channel C - 1 - c
        self.register_buffer("order", torch.eye(channels).flip(0)[:, :, None, None])

    def forward(self, x: Float[Tensor, "batch channel height width"]) -> Tensor:
        """Run the network on the reversed channels."""
        return self.network(F.conv2d(x, self.order))
