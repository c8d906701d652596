"""The small networks of the papers: a table of name -> how to build it and what it takes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import nn
from torch.nn import AvgPool2d, Conv2d, Flatten, Linear, ReLU, Sequential, ZeroPad2d

from holdfast.sources.encoders.shared.resnet import ResNet
from holdfast.sources.encoders.shared.vit import SmallViT


@dataclass(frozen=True)
class Architecture:
    """How a zoo network is built.

    Attributes:
        build: returns the network with fresh random weights; maps [B, *shape] to representations [B, D].
        shape: (channels, height, width) of its input.
        about: one line for lists.
        dim: D where `build` takes another one, as the width of the last linear layer; None: D is fixed.
    """

    build: Callable[..., nn.Module]
    shape: tuple[int, int, int]
    about: str
    dim: int | None = None

    def instantiate(self, dim: int | None = None) -> nn.Module:
        """Return the network with fresh random weights and representations of `dim` numbers; None: the usual ones."""
        return self.build() if dim is None else self.build(dim=dim)


def _base(channels: int, flat: int, *, dim: int = 100) -> nn.Module:
    return Sequential(
        # Kernel 4, stride 2 and padding 1 halve both sides
        Conv2d(channels, 8, 4, stride=2, padding=1), ReLU(),
        Conv2d(8, 16, 4, stride=2, padding=1), ReLU(),
        Flatten(), Linear(flat, dim),
    )  # fmt: skip


def _base_of_means(*, dim: int = 100) -> nn.Module:
    # 224 to 32: seven pixels to one mean
    return Sequential(AvgPool2d(7), *_base(3, 1024, dim=dim).children())


def _cnn_a(channels: int, flat: int, *, dim: int = 100) -> nn.Module:
    return Sequential(
        Conv2d(channels, 16, 4, stride=2, padding=1), ReLU(),
        Conv2d(16, 32, 4, stride=2, padding=1), ReLU(),
        Flatten(), Linear(flat, dim),
    )  # fmt: skip


def _cnn_b(*, dim: int = 100) -> nn.Module:
    return Sequential(
        ZeroPad2d((1, 2, 1, 2)), Conv2d(3, 32, 5, stride=2), ReLU(),
        Conv2d(32, 128, 4, stride=2, padding=1), ReLU(),
        Flatten(), Linear(8192, dim),
    )  # fmt: skip


def _deep(*, dim: int = 100) -> nn.Module:
    return Sequential(
        Conv2d(3, 8, 4, stride=2, padding=1), ReLU(),
        # The two in the middle keep the size
        Conv2d(8, 8, 3, stride=1, padding=1), ReLU(),
        Conv2d(8, 8, 3, stride=1, padding=1), ReLU(),
        Conv2d(8, 8, 4, stride=2, padding=1), ReLU(),
        Flatten(), Linear(512, dim),
    )  # fmt: skip


def _digits_cnn(*, dim: int = 64) -> nn.Module:
    return Sequential(
        Conv2d(1, 16, 3, padding=1), ReLU(),
        Conv2d(16, 32, 4, stride=2, padding=1), ReLU(),
        Flatten(), Linear(512, dim),
    )  # fmt: skip


def _vit_tiny(patch: int) -> nn.Module:
    return SmallViT(patch=patch, dim=48, depth=2, heads=3, mlp=96, dropout=0.0, emb_dropout=0.0)


_MNIST, _CIFAR = (1, 28, 28), (3, 32, 32)

NETWORKS: dict[str, Architecture] = {
    "base_mnist": Architecture(partial(_base, 1, 784), _MNIST, "RVCL Base for MNIST, 100-d", 100),
    "cnn_a_mnist": Architecture(partial(_cnn_a, 1, 1568), _MNIST, "RVCL CNN-A for MNIST, 100-d", 100),
    "base_cifar": Architecture(partial(_base, 3, 1024), _CIFAR, "RVCL Base for CIFAR, 100-d", 100),
    "base_224": Architecture(_base_of_means, (3, 224, 224), "RVCL Base on means of 7x7 pixels, 224x224, 100-d", 100),
    "deep_cifar": Architecture(_deep, _CIFAR, "RVCL Deep for CIFAR, 100-d", 100),
    "cnn_a_cifar": Architecture(partial(_cnn_a, 3, 2048), _CIFAR, "RVCL CNN-A for CIFAR, 100-d", 100),
    "cnn_b_cifar": Architecture(_cnn_b, _CIFAR, "RVCL CNN-B for CIFAR, 100-d", 100),
    "resnet18_32": Architecture(
        partial(ResNet, widths=(64, 128, 256, 512), depth=2, shortcut="projection"),
        _CIFAR,
        "ResNet-18 with a 3x3 stem and no pooling for 32x32 images, 512-d",
    ),
    "resnet8_32": Architecture(
        partial(ResNet, widths=(16, 32, 64), depth=1, shortcut="padding"),
        _CIFAR,
        "ResNet-8: the ResNet-20 of He et al. for CIFAR with one block per stage, 64-d",
    ),
    "resnet20_32": Architecture(
        partial(ResNet, widths=(16, 32, 64), depth=3, shortcut="padding"),
        _CIFAR,
        "ResNet-20 of He et al. for CIFAR (option A shortcuts), 64-d",
    ),
    "vit_small_32": Architecture(SmallViT, _CIFAR, "small vision transformer for 32x32 images, class token, 512-d"),
    "vit_tiny_p8_32": Architecture(partial(_vit_tiny, 8), _CIFAR, "tiny transformer, 16 patches of 8x8, 48-d"),
    "vit_tiny_p16_32": Architecture(partial(_vit_tiny, 16), _CIFAR, "tiny transformer, 4 patches of 16x16, 48-d"),
    "digits_cnn": Architecture(_digits_cnn, (1, 8, 8), "two convolutions for 8x8 digits, 64-d", 64),
}
"""Every architecture of the zoo.

RVCL: Wang and Liu, "RVCL: Evaluating the robustness of contrastive learning via verification". The transformer:
Zhong et al., "Is self-supervised contrastive learning more robust than supervised learning?", Table D.1.
"""
