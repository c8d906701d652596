"""Draws of a learned noise for some images, and what they look like in numbers; no encoder pass."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Draws, Images, Reps, Rng
from holdfast.numerics.geometry.pictures import shrunk
from holdfast.parts.threats.shared.generator import Gaussians
from holdfast.parts.threats.shared.learned import LearnedNoise

DRAWS = 4
SIDE, COARSE = 16, 8
"""Largest side, in pixels, of perturbations that are projected, and of those in the heat map."""
BLOCKS = 64
"""Largest side of the covariance."""


@dataclass(frozen=True)
class Disturbed:
    """A learned noise with the images that it is drawn for; one by one, for covariances of many images are large.

    Attributes:
        noise: the noise.
        reps: clean representations of the images, [N, D].
        labels: their classes, [N]; None where nothing reads them.
        rng: random numbers bound to the ids of the images.
    """

    noise: LearnedNoise
    reps: Reps
    labels: Int[Tensor, "batch"] | None
    rng: Rng

    def at(self, image: int) -> LearnedNoise:
        """Return the noise that one image meets."""
        row = slice(image, image + 1)
        return self.noise.at(self.reps[row], None if self.labels is None else self.labels[row])

    def numbers(self, image: int) -> Float[Tensor, "1 draws numbers"]:
        """Return the numbers behind the draws for one image: always the same ones."""
        z = self.rng.at([self.rng.ids[image]]).normal(DRAWS, 1 + self.noise.generator.design.latent)
        return z.to(next(self.noise.generator.parameters()))

    def push(self, image: int, x: Images) -> Draws:
        """Return the draws for one image, [1, DRAWS, C, H, W]."""
        return self.at(image).push(x, self.numbers(image))


@dataclass(frozen=True)
class NoiseDraws:
    """What the draws look like; a row is a draw, and DRAWS rows in a row are an image.

    Attributes:
        perturbation: x' - x before it is cut off at 0 and 1, shrunk to SIDE, in pixels, [N · DRAWS, features].
        coarse: the same, mean over the channels, shrunk to COARSE, [N · DRAWS, cells].
        latent: the latent vectors, [N · DRAWS, latent]; without an up-sampler they are images and shrunk to SIDE.
        means: μ in the features of `latent`, mean over images, [K, latent].
        weights: π, [N, K].
        covariance: of each image's heaviest component, mean over images and over blocks of latent numbers, [S, S].
    """

    perturbation: Float[Tensor, "rows features"]
    coarse: Float[Tensor, "rows cells"]
    latent: Float[Tensor, "rows latent"]
    means: Float[Tensor, "components latent"]
    weights: Float[Tensor, "images components"]
    covariance: Float[Tensor, "blocks blocks"]


def look(disturbed: Disturbed) -> NoiseDraws:
    """Draw for every image, and return what is seen."""
    perturbation, coarse, latents, means, weights, covariances = [], [], [], [], [], []
    for image in range(len(disturbed.reps)):
        # One image at a time: full covariances of many images would not fit
        noise, z = disturbed.at(image), disturbed.numbers(image)
        gaussians = noise.mixtures(1)
        # NPPR, Eq. 12 and 13: a component for each draw, then its Gaussian; [1, DRAWS, latent]
        latent = gaussians.mix(gaussians.choose(z[..., 0]), z[..., 1:])
        delta = noise.shape(latent)[0].double()
        perturbation.append(shrunk(delta, SIDE).flatten(1))
        # Channels averaged and pixels shrunk, to a few numbers that a heat map can show
        coarse.append(shrunk(delta.mean(1, keepdim=True), COARSE).flatten(1))
        latents.append(_features(noise, latent[0].double()))
        means.append(_features(noise, gaussians.means[0].double()))
        weights.append(gaussians.weights[0].double())
        covariances.append(covariance_of_blocks(gaussians, block(noise)))
    mean = torch.stack(means).mean(0)
    covariance = torch.stack(covariances).mean(0)
    return NoiseDraws(
        torch.cat(perturbation), torch.cat(coarse), torch.cat(latents), mean, torch.stack(weights), covariance
    )


def block(noise: LearnedNoise) -> int:
    """Return how many latent numbers share a row of the covariance."""
    return -(-noise.generator.design.latent // BLOCKS)


def _features(noise: LearnedNoise, latent: Float[Tensor, "rows latent"]) -> Float[Tensor, "rows features"]:
    design = noise.generator.design
    return shrunk(latent.unflatten(1, design.shape), SIDE).flatten(1) if design.upsampler == "none" else latent


def covariance_of_blocks(gaussians: Gaussians, block: int) -> Float[Tensor, "blocks blocks"]:
    """Return P L Lᵀ Pᵀ, P the means over blocks of latent numbers, L the root of one image's heaviest component.

    Args:
        gaussians: the mixture of one image.
        block: how many numbers make a block; the last block may be smaller.
    """
    main = int(gaussians.weights[0].argmax())
    scales = gaussians.scales[0, main].double()
    # Which block each latent number belongs to, and how many each block has
    block_of = torch.arange(len(scales), device=scales.device) // block
    counts = block_of.bincount().double()
    if gaussians.below is None:  # never as a matrix: without an up-sampler it would be one of pixels × pixels
        return (scales.new_zeros(len(counts)).index_add_(0, block_of, scales.square()) / counts.square()).diag()
    root = gaussians.below[0, main].double() + scales.diag()
    # P L without a matrix P: rows of L summed block by block, [blocks, latent]
    means = scales.new_zeros(len(counts), len(scales)).index_add_(0, block_of, root) / counts[:, None]
    return means @ means.T
