"""Gaussian noise: every pixel moves by an independent normal amount."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from holdfast.core import Images, Rng, Threat
from holdfast.runtime.errors import BadValue


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
            raise BadValue(f"gaussian sigma: expected a positive number of pixels, got {self.sigma}")

    def sample(self, x: Images, rng: Rng) -> Images:
        """Draw one noisy version of every image."""
        noisy = x + self.sigma * rng.normal(*x.shape[1:]).to(x)
        return noisy.clamp_(0, 1) if self.clamped else noisy

    def draws(self, x: Images, rng: Rng, block: int) -> Iterator[Callable[[int], Images]]:
        """Yield, without end, a function that gives image i its next `block` noisy versions x_i + σ s_i z.

        The images share the numbers z ~ N(0, I), since drawing them on a CPU costs as much as a small encoder; each has
        its own signs s_i, drawn once. As s_i does not depend on z, and N(0, I) is symmetric in each pixel, an image's
        draws are independent and N(x_i, σ² I), exactly. Those of two images are not independent, but their noise is
        uncorrelated: E[(s_i z)(s_j z)ᵀ] = E[diag(s_i s_j)] = 0.

        All versions are written into one block of memory: whoever keeps draws must copy them. The noise depends on
        the seed, the image's id, σ, the block size, and on whether it is drawn on a CPU or on an accelerator, but not
        on the other images; clamped draws are those that are not, clamped.

        Args:
            x: images, on the encoder's device and in its memory format.
            rng: random numbers bound to their ids.
            block: draws of each image at a time.
        """
        own = rng.child("gaussian", self.sigma)
        # u in [0, 1) becomes -1 or 1, in place: 2 · 1[u < 1/2] - 1
        signs = own.child("signs").uniform(*x.shape[1:]).to(x).lt_(0.5).mul_(2).sub_(1)
        generator = own.generator()
        if x.device.type != "cpu":  # drawing on the CPU would take longer than the encoder does
            generator = torch.Generator(x.device).manual_seed(generator.initial_seed())
        noise = torch.empty(block, *x.shape[1:], dtype=x.dtype, device=x.device)
        # In the images' own memory format, or the encoder would convert every block
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        noisy = torch.empty_like(noise, memory_format=torch.channels_last) if last else torch.empty_like(noise)

        def around(image: int) -> Images:
            # x + σ s z in one pass over memory; the block is overwritten at the next call
            drawn = torch.addcmul(x[image], noise, signs[image], value=self.sigma, out=noisy)
            return drawn.clamp_(0, 1) if self.clamped else drawn

        while True:
            noise.normal_(generator=generator)
            # What is yielded reads `noise` when it is called: every image sees these
            # draws before they are drawn anew
            yield around
