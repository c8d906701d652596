"""One step of learning a mixture: draws, one encoder pass forward and backward each, gradients of the mixture."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Encoder, Event, Images
from holdfast.parts.threats.shared.generator import Gaussians, Outputs
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.runtime.errors import NotFinite
from holdfast.runtime.waiting import expect, move_to

PIXELS = {"cpu": 2**19, "accelerator": 2**23}
"""Most pixel values of disturbed images at a time; more are taken in parts, whose gradients are summed.

On a CPU what its caches hold; an accelerator idles on so few, and 55 photos keep it busy in a few GiB.
"""


@dataclass(frozen=True)
class Draw:
    """The random numbers of one step.

    Attributes:
        gumbel: Gumbel noise of the component's choice, [B, S, K].
        zeta: standard normal numbers of the latent vector, [B, S, latent].
    """

    gumbel: Float[Tensor, "batch draws components"]
    zeta: Float[Tensor, "batch draws latent"]


def draw(images: int, samples: int, noise: LearnedNoise, x: Tensor, generator: torch.Generator) -> Draw:
    """Return fresh random numbers, drawn on the CPU so that they are the same for every device, as a tensor is."""
    design, tiny = noise.generator.design, torch.finfo(x.dtype).tiny
    uniform = torch.rand(images, samples, design.components, generator=generator, dtype=x.dtype).clamp_min(tiny)
    # g = -log(-log U), appendix 9.1 of NPPR; the clamps keep both logarithms finite
    gumbel = -(-uniform.log()).clamp_min(tiny).log()
    zeta = torch.randn(images, samples, design.latent, generator=generator, dtype=x.dtype)
    return Draw(move_to(gumbel, x.device), move_to(zeta, x.device))


def sample_relaxed(gaussians: Gaussians, numbers: Draw, temperature: float) -> Float[Tensor, "batch draws latent"]:
    """Return Σ_k w_k (μ_k + L_k ζ) with w = softmax((log π + g) / τ), which is one-hot in the limit τ → 0."""
    # Eq. 48 and 50 of NPPR; [B, S, K] over the components
    weights = ((gaussians.logits.log_softmax(-1)[:, None] + numbers.gumbel) / temperature).softmax(-1)
    return gaussians.mix(weights, numbers.zeta)


def descend(
    encoder: Encoder,
    event: Event,
    noise: LearnedNoise,
    outputs: Outputs,
    x: Images,
    rows: Int[Tensor, "batch"],
    numbers: Draw,
    temperature: float,
    loss: Callable[[Tensor], Tensor],
    spread: float = 1.0,
) -> Int[Tensor, ""]:
    """Add the gradient of the mean loss of the values to the network's weights; return how many draws hold.

    The outputs are cut off from the network while the draws are passed through the encoder part by part, so that the
    network itself is run backward once, and what a part holds fits into the processor's cache.

    Args:
        encoder: the frozen encoder.
        event: the failure; its value is above 0 where it happens.
        noise: what is learned.
        outputs: what its network says about these images, with a graph to the weights.
        x: the images, [B, C, H, W].
        rows: where they stand among the images that the event is bound to, [B].
        numbers: random numbers.
        temperature: of the relaxation.
        loss: of values, each for itself.
        spread: what the covariances' roots are multiplied by.

    Raises:
        HoldfastError: a disturbed image whose value is not finite.
    """
    # parts of as many images and draws as the device takes at a time
    samples, size = numbers.zeta.shape[1], x[0].numel()
    pixels = PIXELS["cpu" if x.device.type == "cpu" else "accelerator"]
    draws, images = max(1, min(samples, pixels // size)), max(1, pixels // (size * samples))
    total, held = len(x) * samples, torch.zeros((), dtype=torch.long, device=x.device)
    slopes = [torch.zeros_like(output) for output in outputs]
    for first in range(0, len(x), images):
        part = slice(first, first + images)
        leaves = Outputs(*(_part(output.detach(), part).requires_grad_() for output in outputs))
        for leaf, slope in zip(leaves, slopes, strict=True):
            leaf.grad = _part(slope, part)  # gradients are added to it in place
        for start in range(0, samples, draws):
            drawn = slice(start, start + draws)
            part_numbers = Draw(numbers.gumbel[part, drawn], numbers.zeta[part, drawn])
            delta = noise.shape(sample_relaxed(noise.generator.gaussians(leaves, spread), part_numbers, temperature))
            moved = F.hardtanh((x[part, None] + delta).flatten(0, 1), 0, 1)  # a clamp whose gradient is one pass
            if x.is_contiguous(memory_format=torch.channels_last):
                moved = moved.contiguous(memory_format=torch.channels_last)
            values = event(encoder(moved).unflatten(0, delta.shape[:2]), rows[part])
            cost = loss(values).sum() / total
            expect(cost.detach().isfinite()[None], not_finite)
            # the gradient of this part stops at the outputs of the network
            cost.backward()
            held += (values <= 0).sum()
    # one backward pass of the network for all parts
    torch.autograd.backward(outputs, slopes)
    return held


def not_finite(*_: int) -> NotFinite:
    """Return the error of representations from which nothing can be learned."""
    return NotFinite(
        "expected finite representations of disturbed images to learn from, got NaN or infinity; check the encoder's "
        "weights and normalisation"
    )


def _part(tensor: Tensor, images: slice) -> Tensor:
    """Return the rows of some images: the one that there is, where all images share it."""
    return tensor if len(tensor) == 1 else tensor[images]
