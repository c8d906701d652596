"""A network and its images, of which hiding and honest encoders are made."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.hiding.networks import variation
from holdfast.core import Encoder
from holdfast.core.geometry import Geometry
from holdfast.sources.data import ImageSet, open_images
from holdfast.sources.encoders import open_encoder


@dataclass(frozen=True, eq=False)
class Family:
    """A network, its images, and how much is spent on them.

    Attributes:
        name: what it is called.
        encoder: the network's spec; {} stands for the folder that HOLDFAST_SHARED names, with /data.
        data: the images, likewise.
        eps: radius of the ball, in pixels of a [0, 1] image.
        images: how many there are.
        attacked: how many of them are attacked.
        levels: between black and white, of the images as they are.
        pursuit: passes for each image of the audit's own search, along better gradients.
        rounds: of the attack that knows how an encoder hides, see `truth`.
        steps: of each round.
        climbs: how often pixels are tried without gradients.
        climbing: how many steps that takes.
        candidates: tried for each image in each of them.
        honest_too: whether truths of honest encoders are searched.
        others: further networks, by the names of honest encoders.
    """

    name: str
    encoder: str
    data: str
    eps: float
    images: int
    attacked: int
    levels: int = 255
    pursuit: int = 300
    rounds: int = 8
    steps: int = 50
    climbs: int = 2
    climbing: int = 100
    candidates: int = 16
    honest_too: bool = False
    others: Mapping[str, str] = field(default_factory=dict)

    seed = 0

    @property
    def absent(self) -> str:
        """Why it cannot be measured here; empty where it can."""
        if not any("{}" in spec for spec in (self.encoder, self.data)):
            return ""
        where = os.environ.get("HOLDFAST_SHARED", "")
        return "" if where and (Path(where) / "data").is_dir() else "set the environment variable HOLDFAST_SHARED"

    def located(self, spec: str) -> str:
        """Return a spec with the folder in it."""
        return spec.format(Path(os.environ.get("HOLDFAST_SHARED", "")) / "data")

    def network(self, spec: str | None = None) -> nn.Module:
        """Return a network that takes pixels: that of the family, or another one."""
        opened = open_encoder(self.located(spec or self.encoder))
        return nn.Sequential(opened.normalisation, opened.module).eval()

    def encoder_of(self, network: nn.Module, name: str = "encoder") -> Encoder:
        """Return the encoder that a network of pixels is."""
        return Encoder(network, mean=0, std=1, geometry=self.geometry, name=name)

    @cached_property
    def geometry(self) -> Geometry | None:
        """How pictures become pixels."""
        return open_encoder(self.located(self.encoder)).geometry

    @cached_property
    def chosen(self) -> ImageSet:
        """Those that an audit takes, in its order."""
        return open_images(
            self.located(self.data), images=self.images, seed=self.seed, geometry=self.geometry, queries=self.attacked
        )

    @cached_property
    def population(self) -> Tensor:
        """Their pixels, [N, C, H, W]; the first ones are attacked."""
        return self.chosen.pick(range(self.images))

    @cached_property
    def unit(self) -> float:
        """How far an image usually is from its nearest one, as the network represents them."""
        with torch.no_grad():
            reps = self.network()(self.population).double()
        return float(torch.cdist(reps, reps).fill_diagonal_(torch.inf).amin(1).median())

    @cached_property
    def roughness(self) -> float:
        """How much the images vary at most, see `variation`."""
        return float(variation(self.population).max())


CIFAR = "file:{{}}/encoders/cifar10_{}.safetensors?mean=0.485,0.456,0.406&std={}"
BY_CONTRAST, BY_LABELS = "0.225,0.225,0.225", "0.229,0.224,0.225"

FAMILIES = {
    family.name: family
    for family in (
        Family(
            "digits", "zoo:digits-simclr", "digits", 0.1, 100, 40, levels=16, rounds=16, steps=60, honest_too=True,
            others={"trained with labels": "zoo:digits-supervised", "hardened": "zoo:digits-simclr-adv"},
        ),
        Family(
            "cifar", CIFAR.format("cnn_b_eps0", BY_CONTRAST), "{}/cifar10_lossless300.npz", 4 / 255, 100, 24,
            pursuit=200, rounds=6, climbing=50,
            others={
                "trained against attacks": CIFAR.format("cnn_b_eps4.4", BY_CONTRAST),
                "deep, trained against attacks": CIFAR.format("deep_eps4.4", BY_CONTRAST),
                "ResNet-20 trained with labels": CIFAR.format("resnet20_supervised", BY_LABELS),
                "ResNet-2B of a file, trained against attacks": "onnx:{}/real/cifar10_resnet2b_adv.onnx",
                "CNN-A of a file, trained against attacks": "onnx:{}/real/cifar10_cnn_a_adv.onnx",
            },
        ),
        Family(
            "mnist", "file:{}/encoders/mnist_cnn_a_eps0.safetensors?mean=0&std=1", "{}/mnist_test.npz", 0.1, 100, 24,
            others={
                "trained against attacks": "file:{}/encoders/mnist_cnn_a_eps0.2.safetensors?mean=0&std=1",
                "dense": "file:{}/encoders/mnist_base_eps0.safetensors?mean=0&std=1",
            },
        ),
        Family(
            "photos", "onnx:{}/real/imagenet_mobilenet_v1_025.onnx", "{}/photos", 1 / 255, 24, 6,
            pursuit=80, rounds=3, steps=40, climbing=20, candidates=4,
        ),
    )
}  # fmt: skip
