"""The network behind a learned noise: from what is known of an image to the Gaussian mixture that it meets."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from holdfast.core import Reps
from holdfast.parts.threats.shared.upsampler import KINDS, Upsampler, latent_of
from holdfast.runtime.errors import BadValue, Mismatch, Missing, NotEnough, unknown

SOURCES = {
    "independent": ("free", "free"),
    "label": ("groups", "free"),
    "input": ("reps", "reps"),
    "joint": ("groups", "reps"),
}
"""Structure -> what the mixture weights depend on, and what means and covariances depend on."""

CONVENTIONS = ("holdfast", "authors")
"""How the network begins, and how its temperatures act; see `Generator` and `learners/shared/schedule.py`."""

CHOICES = {
    "structure": tuple(SOURCES),
    "covariance": ("full", "diagonal"),
    "upsampler": KINDS,
    "grouping": ("labels", "clusters"),
    "convention": CONVENTIONS,
}
"""What the words of a design may be."""

FLOOR = 1e-3
"""Smallest diagonal entry of a covariance's root."""

LARGEST = 2**28
"""Most numbers that the parameters of the covariances may take (1 GiB)."""


@dataclass(frozen=True)
class Design:
    """All that is needed to build the network, before its weights.

    Attributes:
        shape: (channels, height, width) of the images.
        dim: width of the representations.
        groups: how many groups (classes or clusters) there are; 0 where none are asked for.
        grouping: what the groups are, "labels" or "clusters".
        structure: "independent", "label", "input" or "joint".
        components: K, Gaussians in the mixture.
        latent: length of the latent vector; without a linear map that of the picture it is, see `latent_of`.
        covariance: "full" or "diagonal".
        upsampler: "none", "bicubic", "fixed" or "learned".
        side: height and width of the picture that the up-sampler interpolates.
        hidden: width of the hidden layer.
        embedding: length of a group's embedding.
        convention: "holdfast" or "authors".
    """

    shape: tuple[int, int, int]
    dim: int
    groups: int = 0
    grouping: str = "clusters"
    structure: str = "input"
    components: int = 3
    latent: int = 128
    covariance: str = "full"
    upsampler: str = "learned"
    side: int = 4
    hidden: int = 256
    embedding: int = 64
    convention: str = "holdfast"

    def __post_init__(self) -> None:
        # Outputs that tell the covariances; behind a hidden layer each of them has as many weights
        roots = self.components * (self.latent + self.below)
        for field, choices in CHOICES.items():
            if getattr(self, field) not in choices:
                raise unknown(f"{field} of a mixture", str(getattr(self, field)), choices)
        if self.latent != (own := latent_of(self.upsampler, self.latent, self.shape, self.side)):
            raise BadValue(
                f"mixture with the up-sampler {self.upsampler}: expected latent = {own} pixels, got {self.latent}"
            )
        if roots * (self.hidden if SOURCES[self.structure][1] == "reps" else 1) > LARGEST:
            raise NotEnough(
                f"full covariances of {self.latent} numbers would take too much memory ({self.components} components, "
                f"structure {self.structure}); use covariance='diagonal' or an up-sampler with a smaller latent"
            )

    @property
    def below(self) -> int:
        """How many numbers say what the root of one covariance has below its diagonal; see `lower`."""
        return -(-self.latent // 2) * self.latent if self.covariance == "full" else 0


class Heat(NamedTuple):
    """Temperatures while a mixture is learned; all 1 afterwards.

    Attributes:
        weights: what the logits of π are divided by.
        means: what μ is divided by.
        roots: what the numbers are divided by from which the covariances' roots L are made.
        trunk: what the hidden layer on representations is divided by.
        spread: what L itself is multiplied by.
    """

    weights: float = 1.0
    means: float = 1.0
    roots: float = 1.0
    trunk: float = 1.0
    spread: float = 1.0


COLD = Heat()


class Outputs(NamedTuple):
    """What the heads of the network say, before it is made a mixture; the first dimension is 1 where all share it.

    Attributes:
        logits: log π up to a constant, [B, K].
        means: μ, [B, K · latent].
        scales: softplus⁻¹ of the roots' diagonals, [B, K · latent].
        below: what is below them, packed, [B, K · below].
    """

    logits: Float[Tensor, "batch components"]
    means: Float[Tensor, "other means"]
    scales: Float[Tensor, "other scales"]
    below: Float[Tensor, "other below"]


class Gaussians(NamedTuple):
    """The mixtures Σ_k π_k N(μ_k, L_k L_kᵀ) of some images; the first dimension is 1 where all meet the same.

    Attributes:
        logits: log π up to a constant, [B, K].
        means: μ, [B, K, latent].
        scales: the diagonals of the roots L, positive, [B, K, latent].
        below: the roots below their diagonals, [B, K, latent, latent]; None where they are diagonal.
    """

    logits: Float[Tensor, "batch components"]
    means: Float[Tensor, "other components latent"]
    scales: Float[Tensor, "other components latent"]
    below: Float[Tensor, "other components latent column"] | None

    @property
    def weights(self) -> Float[Tensor, "batch components"]:
        """π."""
        return self.logits.softmax(-1)

    def choose(self, z: Float[Tensor, "batch draws"]) -> Float[Tensor, "batch draws components"]:
        """Return one-hot weights: the component in whose share of [0, 1] the number Φ(z) falls."""
        # NPPR, Eq. 12, by the inverse of the distribution, so that a draw is a function of
        # one normal number. The last end is left out: it is 1 up to rounding, and what lies
        # beyond it is of the last component.
        ends = self.weights.cumsum(-1)[:, None, :-1]
        chosen = (torch.special.ndtr(z)[..., None] > ends).sum(-1)
        return F.one_hot(chosen, self.logits.shape[-1]).to(self.means)

    def mix(
        self, weights: Float[Tensor, "batch draws components"], noise: Float[Tensor, "batch draws latent"]
    ) -> Float[Tensor, "batch draws latent"]:
        """Return Σ_k w_k (μ_k + L_k ζ): a draw of component k where w is one-hot, and its relaxation elsewhere."""
        shared = len(self.means) == 1  # all images meet the same mixture: one product for all of them
        # NPPR, Eq. 13 for one-hot weights, Eq. 50 for relaxed ones; w
        # is [B, S, K], ζ [B, S, latent]
        w, zeta = (weights.flatten(0, 1)[None], noise.flatten(0, 1)[None]) if shared else (weights, noise)
        # Means and diagonals of the roots first: weighted before they meet ζ, [B, S, latent]
        latent = w @ self.means + (w @ self.scales) * zeta
        if self.below is not None:
            spread = (self.below.flatten(1, 2) @ zeta.mT).unflatten(1, self.below.shape[1:3])  # [B, K, latent, S]
            # Summed over components: [B, K, latent, S] -> [B, latent, S] -> [B, S, latent]
            latent = latent + (spread * w.mT[:, :, None]).sum(1).mT
        return latent.reshape(noise.shape)

    @property
    def roots(self) -> Float[Tensor, "other components latent column"]:
        """L, lower triangular with a positive diagonal."""
        diagonal = self.scales.diag_embed()
        return diagonal if self.below is None else diagonal + self.below


class Generator(nn.Module):
    """The mixture and the up-sampler of a learned noise.

    reps -> standardised, Linear, BatchNorm, ReLU -> heads; group -> embedding, normalised, -> head; what depends on
    neither is a free parameter. Which of them gives what is `SOURCES`.

    It begins with equal weights and normal means, free ones or as biases of their head, and what stands below the
    diagonals of roots is divided by √latent. By the authors' convention free means are uniform in [-1, 1], free logits
    normal with a deviation of 0.01, heads begin as any linear layer, and nothing is divided.

    Args:
        design: sizes and structure.
        groups: the classes [G], or the centres of the clusters [G, D]; None for structures that ask for no groups.
    """

    middle: Tensor
    spread: Tensor

    def __init__(self, design: Design, groups: Tensor | None = None):
        super().__init__()
        self.design = design
        if "groups" in self.asks and (groups is None or len(groups) != design.groups):
            raise Mismatch(f"structure {design.structure!r}: expected {design.groups} known groups, got {groups}")
        self.upsampler = Upsampler(design.upsampler, design.latent, design.shape, design.side)
        self.register_buffer("known", groups)  # the name in files of learned noises
        weights, shapes = SOURCES[design.structure]
        # Buffers that `standardise` fills; they are saved with the weights, so
        # that a file tells its own units
        if shapes == "reps":
            hidden = design.hidden
            self.register_buffer("middle", torch.zeros(design.dim))
            self.register_buffer("spread", torch.ones(design.dim))
            self.trunk = nn.Sequential(nn.Linear(design.dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU())
        if weights == "groups":
            self.embedding = nn.Embedding(design.groups, design.embedding)
        count, authors = design.components, design.convention == "authors"
        logits = 0.01 * torch.randn(count) if authors else torch.zeros(count)  # (nearly) uniform weights
        self.logits = self._head(weights, logits, still=True)
        means = torch.empty(count * design.latent)  # different ones, or all would stay equal
        self.means = self._head(shapes, means.uniform_(-1, 1) if authors else means.normal_())
        self.scales = self._head(shapes, torch.zeros(count * design.latent))
        self.below = self._head(shapes, torch.zeros(count * design.below)) if design.below else None

    def _head(self, source: str, start: Float[Tensor, "outputs"], still: bool = False) -> nn.Module | nn.Parameter:
        if source == "free":
            return nn.Parameter(start)
        head = nn.Linear(self.design.hidden if source == "reps" else self.design.embedding, len(start))
        # As torch begins every linear layer
        if self.design.convention == "authors":
            return head
        with torch.no_grad():
            head.bias.copy_(start)
            # Weights of zero: at the beginning all images have the same mixture weights
            if still:
                head.weight.zero_()
        return head

    @property
    def groups(self) -> Tensor | None:
        """The classes [G], or the centres of the clusters [G, D]; None where it asks for no groups."""
        return self._buffers["known"]

    @property
    def asks(self) -> frozenset[str]:
        """What it must know of an image: "reps", "groups", both or nothing ("free")."""
        return frozenset(SOURCES[self.design.structure])

    def forward(self, reps: Reps | None, groups: Int[Tensor, "batch"] | None) -> Gaussians:
        """Return the mixtures of some images; see `outputs`."""
        return self.gaussians(self.outputs(reps, groups))

    def outputs(self, reps: Reps | None, groups: Int[Tensor, "batch"] | None, heat: Heat = COLD) -> Outputs:
        """Outputs of the heads for some images.

        Args:
            reps: their clean representations, [B, D]; read by "input" and "joint".
            groups: numbers of their groups, [B]; read by "label" and "joint".
            heat: temperatures.
        """
        inputs: dict[str, Tensor | None] = {"free": None}
        if "reps" in self.asks:
            assert reps is not None
            inputs["reps"] = self.trunk(self._standard(reps)) / heat.trunk
        if "groups" in self.asks:
            inputs["groups"] = F.normalize(self.embedding(groups), dim=-1)
        # π from the one source, μ and L from the other
        weights, shapes = (inputs[source] for source in SOURCES[self.design.structure])
        means, scales = _through(self.means, shapes, heat.means), _through(self.scales, shapes, heat.roots)
        # divided so that a root's row has a norm of about one while outputs have
        size = 1.0 if self.design.convention == "authors" else math.sqrt(self.design.latent)
        below = means[:, :0] if self.below is None else _through(self.below, shapes, heat.roots * size)
        return Outputs(_through(self.logits, weights, heat.weights), means, scales, below)

    def gaussians(self, outputs: Outputs, spread: float = 1.0) -> Gaussians:
        """Return the mixtures that outputs stand for, their roots multiplied by `spread`.

        Diagonals of roots pass through softplus, so every covariance is positive definite.
        """
        count, size = self.design.components, self.design.latent
        means, scales = (part.unflatten(-1, (count, size)) for part in (outputs.means, outputs.scales))
        below = None if self.below is None else lower(outputs.below.unflatten(-1, (count, -1, size)))
        # The floor keeps a component from shrinking to a point, where its gradient vanishes
        roots = F.softplus(scales) + FLOOR
        if spread == 1:
            return Gaussians(outputs.logits, means, roots, below)
        return Gaussians(outputs.logits, means, spread * roots, None if below is None else spread * below)

    def group(self, reps: Reps, labels: Int[Tensor, "batch"] | None) -> Int[Tensor, "batch"] | None:
        """Return the number of each image's group: of its label, or of the nearest centre; None where none is asked.

        Raises:
            HoldfastError: labels that are missing, or that were not there when the mixture was learned.
        """
        if "groups" not in self.asks:
            return None
        assert self.groups is not None  # __init__ asks for it
        if self.design.grouping == "clusters":
            return nearest(reps.to(self.groups), self.groups)
        if labels is None:
            raise Missing("a mixture with weights for each label needs labels; use a data source that has them")
        # [B, G]: a label has one group, and is found by its value, which need not be 0 to G - 1
        same = labels.to(self.groups)[:, None] == self.groups
        if not bool(same.any(1).all()):
            strange = sorted(set(labels[~same.any(1).to(labels.device)].tolist()))
            raise Mismatch(
                f"labels {strange[:8]} were not there when the mixture was learned (it knows "
                f"{self.groups.tolist()[:20]}); "
                "learn it on images of all classes"
            )
        return same.int().argmax(1)

    def standardise(self, reps: Reps) -> None:
        """Let the network see (reps - mean) / std of each feature, with mean and std of these representations [N, D].

        So the scale and the offset of an encoder do not matter; BatchNorm's ε would swamp small representations.
        Features that are constant but for rounding are not divided.
        """
        if "reps" not in self.asks:
            return
        middle, spread = reps.double().mean(0), reps.double().std(0, correction=0)
        # A spread that rounding alone can make is none, and would be blown up
        rounding = 8 * torch.finfo(reps.dtype).eps * reps.double().abs().amax(0)
        self.middle.copy_(middle)
        self.spread.copy_(torch.where(spread > rounding, spread, 1.0))

    def _standard(self, reps: Reps) -> Reps:
        return (reps - self.middle) / self.spread

    def settle(self, reps: Reps) -> None:
        """Give BatchNorm the statistics of these representations, and leave training mode."""
        if "reps" in self.asks:
            norm = self.trunk[1]
            assert isinstance(norm, nn.BatchNorm1d)
            norm.reset_running_stats()
            norm.momentum = None  # the average of one batch, which is all of them
            with torch.no_grad():
                self.trunk.train()(self._standard(reps))
        self.eval().requires_grad_(False)


def _through(head: nn.Module | nn.Parameter, inputs: Tensor | None, heat: float) -> Float[Tensor, "batch outputs"]:
    if isinstance(head, nn.Linear):
        assert inputs is not None
        return F.linear(inputs / heat, head.weight, head.bias / heat)  # cheaper than to divide all outputs
    assert isinstance(head, nn.Parameter)
    return head[None] / heat


def nearest(points: Float[Tensor, "points dim"], centres: Float[Tensor, "centres dim"]) -> Int[Tensor, "points"]:
    """Return the number of each point's nearest centre, whatever other points there are.

    Of many points `torch.cdist` takes a matrix product unless told not to, and loses what a large common offset hides.
    """
    return torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)


def lower(packed: Float[Tensor, "*batch half size"]) -> Float[Tensor, "*batch size size"]:
    """Return strictly lower triangular matrices [[A, 0], [B, C]] from [C + Aᵀ | B]: no entry is looked up one by one.

    Args:
        packed: half = ⌈size / 2⌉ rows; the diagonal of its square, and its last column where size is odd, are not read.
    """
    half = packed.shape[-2]
    # `square` [half, half] has Aᵀ above its diagonal and C below it; `left` is B
    square, left = packed.split([half, packed.shape[-1] - half], -1)
    width = left.shape[-1]
    # A is a row and a column smaller than C where size is odd; zeros stand to its right
    top = F.pad(square.triu(1).mT[..., :width, :width], (0, half))
    return torch.cat([top, torch.cat([left, square.tril(-1)], -1)], -2)
