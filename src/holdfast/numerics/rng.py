"""Random numbers named by seed, part and image, so that results do not depend on batches, shards or order."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.numerics import philox


@dataclass(frozen=True)
class Rng:
    """Random numbers that depend on (seed, path, image id) and on nothing else.

    The draw of one image is the same whatever the batch size, the shard or the order of the images.

    Attributes:
        seed: the one seed of the run.
        path: names of the part that draws; extend it with `child`.
        ids: one stable id per image of the batch; replace them with `at`.
    """

    seed: int
    path: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def child(self, *names: object) -> "Rng":
        """Return an independent stream named by `names` below this one."""
        return replace(self, path=self.path + tuple(str(name) for name in names))

    def at(self, ids: Sequence[str]) -> "Rng":
        """Return the same stream for other images."""
        return replace(self, ids=tuple(ids))

    def generator(self, image: str = "") -> torch.Generator:
        """Return the CPU generator of one image (or, without a name, of the stream itself)."""
        # Signed, as manual_seed takes numbers of 64 bits
        return torch.Generator().manual_seed(int.from_bytes(self._digest(image)[:8], "big", signed=True))

    def number(self, image: str) -> int:
        """Return one uniform integer in [0, 2⁶⁴) of an image, the seed of its generator; a million take seconds."""
        return int.from_bytes(self._digest(image)[:8], "big")

    def _digest(self, image: str) -> bytes:
        # `repr` keeps names apart, which joined to one text could be those of another path
        return hashlib.sha256(repr((self.seed, self.path, image)).encode()).digest()

    def numpy(self) -> np.random.Generator:
        """Return NumPy's fastest generator of the stream: for whole images of noise."""
        return np.random.Generator(np.random.SFC64(int.from_bytes(self._digest("numpy"), "big")))

    def uniform(self, *shape: int) -> Float[Tensor, "batch ..."]:
        """Draw uniform numbers in [0, 1), of `shape` for every image: [len(ids), *shape]."""
        return torch.stack([torch.rand(shape, generator=self.generator(i)) for i in self.ids])

    def normal(self, *shape: int) -> Float[Tensor, "batch ..."]:
        """Draw standard normal numbers, of `shape` for every image: [len(ids), *shape]."""
        return torch.stack([torch.randn(shape, generator=self.generator(i)) for i in self.ids])

    def normal_on(self, device: torch.device, *shape: int) -> Float[Tensor, "batch ..."]:
        """Draw standard normal numbers where they are needed, of `shape` for every image: for noise on many pixels.

        On CUDA, which would wait for a CPU, they are counter-based: as independent of batches as `normal`, but other
        numbers. In torch's own operations these are 6 to 10 times slower than a CPU's generator, which therefore stays.
        """
        return self._draw_philox(device, *shape) if device.type == "cuda" else self.normal(*shape).to(device)

    def _draw_philox(self, device: torch.device, *shape: int) -> Float[Tensor, "batch ..."]:
        keys = [int.from_bytes(self._digest(image)[:8], "big", signed=True) for image in self.ids]
        return philox.normal(torch.tensor(keys, device=device), math.prod(shape)).unflatten(1, shape)
