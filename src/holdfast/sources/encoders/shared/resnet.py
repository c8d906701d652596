"""Residual networks for 32x32 images, with the parameter names of the usual checkpoints."""

from collections.abc import Sequence
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

Maps = Float[Tensor, "batch channel height width"]
NewMaps = Float[Tensor, "batch new_channel new_height new_width"]


class _PadShortcut(nn.Module):
    """Option A of He et al.: every second pixel, new channels are zero, half of them on either side."""

    def __init__(self, new_channels: int):
        super().__init__()
        self.pad = new_channels // 2

    def forward(self, x: Maps) -> NewMaps:
        # [B, C, H/2, W/2], with zero channels in front and behind
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))


class _Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int, shortcut: Literal["padding", "projection"]):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample: nn.Module = nn.Identity()
        # Only where the shape changes; elsewhere the block adds its input
        if stride != 1 or before != width:
            self.downsample = (
                _PadShortcut(width - before)
                if shortcut == "padding"
                else nn.Sequential(nn.Conv2d(before, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))
            )

    def forward(self, x: Maps) -> NewMaps:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class ResNet(nn.Module):
    """A ResNet of basic blocks with a 3x3 stem and no max-pooling; the output is the average-pooled last stage.

    Parameter names are torchvision's (`layer2.0.downsample.1.weight`), so checkpoints trained with its ResNets fit.

    Args:
        widths: channels of each stage; every stage but the first halves height and width.
        depth: blocks per stage.
        shortcut: "projection" (1x1 convolution, option B) or "padding" (zeros, option A, no parameters).

    Source: He et al., "Deep residual learning for image recognition", section 4.2.
    """

    def __init__(self, *, widths: Sequence[int], depth: int, shortcut: Literal["padding", "projection"]):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.stages = [f"layer{i}" for i in range(1, len(widths) + 1)]
        before = widths[0]
        for i, (name, width) in enumerate(zip(self.stages, widths, strict=True)):
            # Every stage but the first begins with a stride of 2
            blocks = [
                _Block(before if j == 0 else width, width, 2 if i and not j else 1, shortcut) for j in range(depth)
            ]
            self.add_module(name, nn.Sequential(*blocks))
            before = width

    def forward(self, x: Maps) -> Float[Tensor, "batch dim"]:
        """Map normalised images [B, 3, H, W] to [B, widths[-1]]."""
        x = F.relu(self.bn1(self.conv1(x)))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return x.mean(dim=(2, 3))
