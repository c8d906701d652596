"""The networks that are timed, each on its device as audits have it, and pictures for it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.gpu.device import Device
from holdfast.auditing.images import memory_format
from holdfast.auditing.plan import batch_size_for
from holdfast.core import Encoder
from holdfast.sources.encoders import open_encoder


@dataclass(frozen=True)
class Network:
    """A network with random weights.

    Attributes:
        title: how tables call it.
        spec: how it is opened.
        shape: of an image.
        needs: packages that it comes from.
    """

    title: str
    spec: str
    shape: tuple[int, int, int]
    needs: tuple[str, ...] = ()

    def encoder(self, device: Device) -> Encoder:
        """Return it on the device, in the memory format that audits choose."""
        encoder = open_encoder(self.spec)
        return encoder.to(device.name, memory_format=memory_format(encoder))  # pyright: ignore

    def pictures(self, encoder: Encoder, count: int) -> Tensor:
        """Return random pictures, [count, C, H, W], where the encoder is: coarse shapes under fine noise."""
        random, (channels, height, width) = torch.Generator().manual_seed(0), self.shape
        coarse = torch.rand(count, channels, 7, 7, generator=random).to(encoder.device)
        noise = torch.rand(min(count, 64), channels, height, width, generator=random).to(encoder.device)
        noise = noise.repeat(-(-count // len(noise)), 1, 1, 1)[:count]
        x = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
        return (0.8 * x + 0.2 * noise).clamp(0, 1).contiguous(memory_format=memory_format(encoder))

    @property
    def own_batch(self) -> int:
        """How many images an audit passes at a time on a GPU."""
        return batch_size_for(self.shape, "cuda")


RESNET50 = Network("ResNet-50", "torchvision:resnet50?weights=random", (3, 224, 224), ("torchvision",))
VIT_B16 = Network("ViT-B/16", "torchvision:vit_b_16?weights=random", (3, 224, 224), ("torchvision",))
RESNET18 = Network("ResNet-18, 32 × 32", "zoo:resnet18_32", (3, 32, 32))
DIGITS = Network("CNN of digits", "zoo:digits-simclr", (1, 8, 8))
