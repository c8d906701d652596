"""Gaussian noise: every pixel moves by an independent normal amount."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import HoldfastError, Images, Rng, Threat


@dataclass(frozen=True)
class Gaussian(Threat):
    """x + σ z with z ~ N(0, I), in pixels, before any normalisation.

    Attributes:
        sigma: σ in pixels of a [0, 1] image, positive.
        clamped: whether pixels are brought back to [0, 1]. Certificates by smoothing are about the noise before that:
            what clamps it is then a part of the encoder.

    Source: Cohen et al. (2019) for its use in certificates.

    Example:
        >>> from holdfast.core import Rng
        >>> x = torch.full((1, 1, 100, 100), 0.5)
        >>> round((Gaussian(0.1).sample(x, Rng(0, ids=("a",))) - x).std().item(), 2)
        0.1
    """

    sigma: float = 0.25
    clamped: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.sigma < float("inf"):
            raise HoldfastError(f"gaussian sigma: expected a positive number of pixels, got {self.sigma}")

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw one noisy version of every image."""
        noisy = x + self.sigma * rng.normal(*x.shape[1:]).to(x)
        return noisy.clamp_(0, 1) if self.clamped else noisy

    def draws(self, x: Float[Tensor, "channel height width"], rng: Rng, block: int) -> Iterator[Images]:
        """Yield noisy versions of one image without end, `block` at a time, clamped to [0, 1] or not.

        A block's memory is used again for the next one: whoever keeps draws must copy them. The noise depends on the
        seed, the image's id, σ, the block size, and on whether it is drawn on a CPU or on an accelerator; clamped draws
        are those that are not, clamped.

        Args:
            x: the image, on the encoder's device and in its memory format.
            rng: random numbers bound to the id of this image.
            block: draws at a time.
        """
        generator = rng.child("gaussian", self.sigma).generator(rng.ids[0])
        if x.device.type != "cpu":  # drawing on the CPU would take longer than the encoder does
            generator = torch.Generator(x.device).manual_seed(generator.initial_seed())
        noise = torch.empty(block, *x.shape, dtype=x.dtype, device=x.device)
        last = x[None].is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        noisy = torch.empty_like(noise, memory_format=torch.channels_last) if last else noise
        while True:
            noise.normal_(generator=generator)
            torch.add(x, noise, alpha=self.sigma, out=noisy)
            yield noisy.clamp_(0, 1) if self.clamped else noisy
