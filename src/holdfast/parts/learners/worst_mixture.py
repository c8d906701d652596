"""The worst noise as a Gaussian mixture: the NPPR estimator, for any failure of an encoder."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Encoder, Event, Images, Passes, Reps, Rng
from holdfast.numerics.statistics.entropy import entropy_ratio
from holdfast.parts.learners.shared.groups import centres, classes
from holdfast.parts.learners.shared.learner import LearnedMixture, Learner, find_unharmed
from holdfast.parts.learners.shared.schedule import (
    authors_heat,
    authors_relaxation,
    heat,
    rate_factor,
    relaxation,
)
from holdfast.parts.learners.shared.step import descend, draw
from holdfast.parts.threats.shared.generator import CONVENTIONS, SOURCES, Design, Generator, Heat
from holdfast.parts.threats.shared.learned import LearnedNoise
from holdfast.parts.threats.shared.upsampler import KINDS, latent_of
from holdfast.runtime.errors import BadValue, unknown
from holdfast.runtime.waiting import defer_expectations, move_to
from holdfast.sources.encoders.shared.weights import fix_seed

CHOICES = {
    "structure": tuple(SOURCES),
    "covariance": ("full", "diagonal"),
    "upsampler": KINDS,
    "groups": ("clusters", "labels"),
    "loss": ("softplus", "sigmoid"),
    "convention": CONVENTIONS,
}


@dataclass(frozen=True)
class WorstMixture(Learner):
    """min over π, μ, L of the mean loss of κ - value(f(x')), x' = clamp(x + squash(upsample(μ_k + L_k ζ))), k ~ π.

    A value above 0 is a failure; for a classifier it is max_{j≠y} z_j - z_y. The choice of k is relaxed by
    Gumbel-softmax, and temperatures fall while it learns.

    Attributes:
        structure: what the noise knows of an image: "independent" nothing, "label" its group (π), "input" its clean
            representation (π, μ, L), "joint" both (π from the group, μ and L from the representation).
        components: K, Gaussians in the mixture.
        latent: length of the latent vector; where that is a picture itself, its number of pixels.
        covariance: "full" or "diagonal".
        upsampler: "none", or bicubic interpolation of a small picture: the latent vector itself ("bicubic"), a random
            linear map of it ("fixed") or a "learned" one.
        side: height and width of the picture that the up-sampler interpolates: 4 in the paper; larger ones reach finer
            perturbations. Where an image is smaller, its side is taken.
        hidden: width of the hidden layer on representations.
        embedding: length of a group's embedding.
        groups: "clusters" of clean representations, or "labels".
        clusters: how many clusters.
        epochs: passes over the training images.
        batch: least images per step (fewer where there are not as many).
        samples: draws for each image and epoch.
        rate: learning rate of Adam.
        warmup: epochs over which the learning rate rises from 0.
        cosine: whether it falls to 0 as a cosine afterwards, or stays.
        clip: largest norm of a gradient.
        loss: "sigmoid", a smooth count of the draws that do not fail; or "softplus" as in the paper, which is convex:
            draws that cannot be made to fail weigh most, and noise that several images share may stay near zero.
        kappa: κ, how far beyond the edge of failing draws are pushed, in units of the failure's value.
        images: training images at most, the first that do not fail without noise; None for all.
        convention: "holdfast": temperatures divide what the network says, from step to step by equal factors, over the
            whole training. "authors": they multiply, evenly from epoch to epoch over `annealing` epochs, the hidden
            layer is heated too, and means begin uniform; see `authors_heat` and `Generator`.
        annealing: epochs over which the authors' temperatures fall.

    Source: Wang et al. (2025), section 4 and appendix 9. There the loss is softplus, the side 4, and 50 epochs of
    50,000 images come in batches of 256 with 32 draws each at a rate of 5e-4 (independent noise with a fixed
    up-sampler: a larger rate, 20 epochs of warm-up and a cosine). Of a thousand images many small steps learn more than
    many draws, and a side of 16 finds far worse noise. Temperatures: see `shared/schedule.py`.

    Example:
        >>> WorstMixture(epochs=5, samples=4).passes.work
        40
    """

    structure: str = "input"
    components: int = 3
    latent: int = 128
    covariance: str = "full"
    upsampler: str = "learned"
    side: int = 16
    hidden: int = 256
    embedding: int = 64
    groups: str = "clusters"
    clusters: int = 10
    epochs: int = 20
    batch: int = 16
    samples: int = 4
    rate: float = 2e-3
    warmup: int = 0
    cosine: bool = False
    clip: float = 5.0
    loss: str = "sigmoid"
    kappa: float = 1.0
    images: int | None = 1000
    convention: str = "holdfast"
    annealing: int = 50

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise unknown(f"{name} of worst_mixture", str(getattr(self, name)), choices)
        counts = ("components", "latent", "side", "hidden", "embedding", "epochs", "samples", "annealing")
        least = {**dict.fromkeys(counts, 1), "batch": 2, "clusters": 2, "warmup": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise BadValue(f"worst_mixture {name}: expected at least {low}, got {getattr(self, name)}")
        for name in ("rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise BadValue(f"worst_mixture {name}: expected a positive number, got {getattr(self, name)}")
        if not 0 <= self.kappa < math.inf:
            raise BadValue(f"worst_mixture kappa: expected 0 or a positive number, got {self.kappa}")
        if self.images is not None and self.images < 2:
            raise BadValue(f"worst_mixture images: expected at least 2, or None for all, got {self.images}")

    @property
    def needs_labels(self) -> bool:
        """Whether the groups that the noise depends on are labels."""
        return self.groups == "labels" and "groups" in SOURCES[self.structure]

    @property
    def passes(self) -> Passes:
        """Encoder passes that one training image costs: one forward and one backward for every draw."""
        return Passes(forward=self.epochs * self.samples, backward=self.epochs * self.samples)

    @defer_expectations()
    def learn(
        self,
        encoder: Encoder,
        x: Images,
        clean: Reps,
        event: Event,
        labels: Int[Tensor, "batch"] | None,
        ball: Ball,
        rng: Rng,
    ) -> LearnedMixture:
        """Learn the noise on some images, which must not be those it is then evaluated on."""
        clean = clean.detach().to(x)
        # Images that fail by themselves say nothing about the noise
        rows = find_unharmed(clean, event, self.images)
        numbers = rng.child("worst_mixture").generator()
        generator = self._build(x, clean[rows], None if labels is None else labels.to(x.device), rng)
        noise, history = LearnedNoise(generator, ball), []
        with torch.enable_grad():
            # Eq. 10 of NPPR by Adam: the mean over images and draws of a smooth loss
            adam = torch.optim.Adam(generator.parameters(), self.rate, fused=True)
            for epoch in range(self.epochs):
                history.append(self._epoch(epoch, encoder, x, clean, event, labels, rows, noise, adam, numbers))
        # BatchNorm's statistics become those of all training images: from here on no batch matters
        generator.settle(clean[rows])
        chance, entropy = torch.tensor(history).unbind(1)
        return LearnedMixture(len(rows), chance, noise, entropy)

    def _loss(self, values: Float[Tensor, "rows draws"]) -> Float[Tensor, "rows draws"]:
        # Softplus is Eq. 11 of NPPR, with value = max_{j≠y} z_j - z_y
        return (F.softplus if self.loss == "softplus" else torch.sigmoid)(self.kappa - values)

    def _temperatures(self, epoch: int, now: float) -> tuple[Heat, float]:
        """Return those of the mixture and of the Gumbel-softmax, in an epoch from 0 on, and after so many of them."""
        if self.convention == "authors":
            return authors_heat(epoch + 1, self.annealing), authors_relaxation(epoch + 1, self.epochs)
        progress = min(1.0, now / max(1, self.epochs - 1))  # the last epoch has reached the end of the annealing
        return heat(progress), relaxation(progress)

    def _build(
        self, x: Images, clean: Float[Tensor, "rows dim"], labels: Int[Tensor, "images"] | None, rng: Rng
    ) -> Generator:
        """Return the network with its first weights, on the images' device."""
        # the groups the noise may depend on: labels, or clusters of representations
        seed, groups = rng.child("worst_mixture", "weights").generator().initial_seed(), None
        if "groups" in SOURCES[self.structure]:
            groups = classes(labels) if self.groups == "labels" else centres(clean, self.clusters, seed)
        shape, side = (x.shape[1], x.shape[2], x.shape[3]), min(self.side, *x.shape[2:])
        design = Design(
            shape=shape,
            dim=clean.shape[1],
            groups=0 if groups is None else len(groups),
            grouping=self.groups,
            structure=self.structure,
            components=self.components,
            latent=latent_of(self.upsampler, self.latent, shape, side),
            covariance=self.covariance,
            upsampler=self.upsampler,
            side=side,
            hidden=self.hidden,
            embedding=self.embedding,
            convention=self.convention,
        )
        # first weights by the seed, whatever else has drawn; outputs standardised on these images
        with fix_seed(seed):
            generator = Generator(design, groups).to(x)
        generator.standardise(clean)
        return generator

    def _epoch(
        self,
        epoch: int,
        encoder: Encoder,
        x: Images,
        clean: Reps,
        event: Event,
        labels: Int[Tensor, "batch"] | None,
        rows: Int[Tensor, "rows"],
        noise: LearnedNoise,
        adam: torch.optim.Optimizer,
        numbers: torch.Generator,
    ) -> tuple[float, float]:
        """Pass over the images once; return (share of draws that held, mean entropy ratio)."""
        order = rows[move_to(torch.randperm(len(rows), generator=numbers), rows.device)]
        parts = order.tensor_split(max(1, len(rows) // self.batch))  # near-equal ones, so that no image is left alone
        counts, ratios = [], []
        for step, part in enumerate(parts):
            # The middle of the step, so that the first rate of a warm-up is not 0
            now = epoch + (step + 0.5) / len(parts)
            warmth, softness = self._temperatures(epoch, now)
            for group in adam.param_groups:
                group["lr"] = self.rate * rate_factor(now, self.epochs, self.warmup, self.cosine)
            adam.zero_grad()
            groups = noise.generator.group(clean[part], None if labels is None else labels.to(part.device)[part])
            # Logits, means and roots for each image, [B, ...], or one row that all share
            outputs = noise.generator.outputs(clean[part], groups, warmth)
            drawn = draw(len(part), self.samples, noise, x, numbers)
            where = x[part], part, drawn
            counts.append(descend(encoder, event, noise, outputs, *where, softness, self._loss, warmth.spread))
            # Clipped once, when the gradients of all parts of the batch are in
            torch.nn.utils.clip_grad_norm_(noise.generator.parameters(), self.clip)
            adam.step()
            ratios.append(entropy_ratio(outputs.logits.detach().softmax(-1)).mean())
        # numbers are read once an epoch: the host waits for them
        held = entropy = 0.0
        read = torch.stack([torch.stack(counts).double(), torch.stack(ratios).double()], 1).tolist()
        for part, (count, ratio) in zip(parts, read, strict=True):
            # A mean over images: near-equal parts, but weighted by their sizes all the same
            held += count / (len(part) * self.samples) * len(part) / len(rows)
            entropy += ratio * len(part) / len(rows)
        return held, entropy
