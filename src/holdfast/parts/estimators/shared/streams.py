"""Random numbers for draws of many images that come and go: each image reads its own stream."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Rng


class Streams:
    """A generator for each image, read in the order of that image's draws; other images change nothing.

    Args:
        rng: names the images.
        numbers: how many standard normal numbers a draw takes.
        device: where the numbers are needed.
    """

    def __init__(self, rng: Rng, numbers: int, device: torch.device | str):
        self._generators = [rng.generator(image) for image in rng.ids]
        self._numbers, self._device = numbers, device

    def normal(self, images: Int[Tensor, "draws"]) -> Float[Tensor, "draws numbers"]:
        """Draw standard normal numbers, a row for each of these images (in ascending order)."""
        parts = [torch.randn(n, self._numbers, generator=g) for n, g in self._counts(images)]
        return torch.cat(parts).to(self._device)

    def uniform(self, images: Int[Tensor, "draws"]) -> Float[Tensor, "draws"]:
        """Draw a number in [0, 1) for each of these images (in ascending order)."""
        return torch.cat([torch.rand(n, generator=g) for n, g in self._counts(images)]).to(self._device)

    def _counts(self, images: Int[Tensor, "draws"]) -> list[tuple[int, torch.Generator]]:
        # Ascending, so counting is enough to know whose rows are where
        counts = images.cpu().bincount(minlength=len(self._generators)).tolist()
        return [(n, g) for n, g in zip(counts, self._generators, strict=True) if n]
