"""A learned noise in memory: the network that was trained, the ball it stays in, and the images it is bound to."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Ball, Draws, HoldfastError, Images, Noise, Reps, registry
from holdfast.parts.threats.shared.generator import Design, Gaussians, Generator
from holdfast.runtime.errors import BadData, Mismatch, Missing, first_line

FORMAT = "holdfast mixture 2"


@dataclass(frozen=True, eq=False)
class LearnedNoise(Noise):
    """x' = clamp(x + squash(upsample(μ_k + L_k ζ))), k drawn from π; z = (number that draws k, ζ).

    Attributes:
        generator: gives π, μ and L.
        ball: where every draw lies.
        gaussians: the mixtures of the images that it is bound to; None before `at`.
    """

    generator: Generator
    ball: Ball  # pyright: ignore[reportIncompatibleVariableOverride]  # frozen, so never set to None
    gaussians: Gaussians | None = None

    @property
    def needs_labels(self) -> bool:
        """Whether its weights depend on classes."""
        return "groups" in self.generator.asks and self.generator.design.grouping == "labels"

    def numbers(self, x: Images) -> int:
        """Return 1 + the length of the latent vector.

        Raises:
            HoldfastError: images of another shape than those it was learned on.
        """
        if tuple(x.shape[1:]) != self.generator.design.shape:
            raise Mismatch(
                f"this mixture was learned on images [channels, height, width] = {list(self.generator.design.shape)}, "
                f"got {list(x.shape[1:])}; learn one for these images"
            )
        return 1 + self.generator.design.latent

    def at(self, reps: Reps, labels: Int[Tensor, "batch"] | None) -> "LearnedNoise":
        """Return the noise that these images meet.

        Args:
            reps: their clean representations, [B, D].
            labels: their classes, [B]; not read where the groups are clusters.

        Raises:
            HoldfastError: representations of another width, or labels that are missing or not known.
        """
        generator = self.generator.to(reps.device)
        if generator.asks != {"free"} and reps.shape[1] != generator.design.dim:
            raise Mismatch(
                f"this mixture was learned on representations of {generator.design.dim} numbers, got {reps.shape[1]}; "
                "learn one for this encoder"
            )
        with torch.no_grad():
            # In the network's own precision, whatever that of the representations is
            own = next(generator.parameters()).dtype
            return replace(self, gaussians=generator(reps.to(own), generator.group(reps, labels)))

    def push(self, x: Images, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        """Return the disturbed images that some numbers stand for, inside the ball and [0, 1]."""
        # Refuses images of another shape
        self.numbers(x)
        return (x[:, None] + self.delta(z).to(x)).clamp(0, 1)

    def delta(self, z: Float[Tensor, "batch draws numbers"]) -> Draws:
        """Return the perturbations that some numbers stand for, before they are cut off at 0 and 1; in pixels."""
        gaussians = self.mixtures(len(z))
        z = z.to(gaussians.means)
        # The first number draws the component, the others are ζ
        return self.shape(gaussians.mix(gaussians.choose(z[..., 0]), z[..., 1:]))

    def shape(self, latent: Float[Tensor, "batch draws latent"]) -> Draws:
        """Return the perturbations of latent vectors: up-sampled, and squashed into the ball; in pixels."""
        return self.ball.squash(self.generator.to(latent.device).upsampler(latent))

    def mixtures(self, images: int) -> Gaussians:
        """Return the mixtures that this many images meet (one for all of them where they share it).

        Raises:
            HoldfastError: a noise that is not bound to as many images.
        """
        gaussians = self.gaussians
        if gaussians is None and self.generator.asks == {"free"}:
            gaussians = self.generator(None, None)
        if gaussians is None:
            raise Missing(
                f"a mixture of structure {self.generator.design.structure!r} depends on the images: bind it with "
                "noise.at(clean representations, labels) before images are disturbed"
            )
        if len(gaussians.logits) not in (1, images):
            raise Mismatch(
                f"this mixture is bound to {len(gaussians.logits)} images, got {images}; bind it to them with "
                "noise.at(...)"
            )
        return gaussians

    def weights(self, images: int) -> Float[Tensor, "batch components"]:
        """Return π of every image."""
        return self.mixtures(images).weights.expand(images, -1)

    def covariance(self, images: int) -> Float[Tensor, "batch latent latent"]:
        """Return the covariance of every image's heaviest component, in the latent space."""
        gaussians = self.mixtures(images)
        main = gaussians.weights.argmax(-1).expand(images)
        # Of one component alone, [B, latent, latent]: all of them would be K times as large
        roots = gaussians.roots.expand(images, -1, -1, -1)[torch.arange(images, device=main.device), main]
        return roots @ roots.mT


def describe(noise: LearnedNoise) -> str:
    """What restores the noise beside its tensors, as JSON."""
    design = asdict(noise.generator.design)
    return json.dumps({"format": FORMAT, "design": design, "ball": registry.spec(noise.ball)}, sort_keys=True)


def restore(described: str, state: Mapping[str, Tensor]) -> LearnedNoise:
    """Return the noise that `describe` and its network's tensors stand for.

    Raises:
        HoldfastError: a description or tensors that are not those of a mixture.
    """
    try:
        data = json.loads(described)
        if data.get("format") != FORMAT:
            raise BadData(f"expected the format {FORMAT!r}, got {data.get('format')!r}")
        design = Design(**{**data["design"], "shape": tuple(data["design"]["shape"])})
        ball = registry.build(data["ball"])
        if not isinstance(ball, Ball):
            raise BadData(f"expected a ball, got {type(ball).__name__}")
        with torch.random.fork_rng(devices=[]):  # first weights are drawn, though they are replaced
            generator = Generator(design, state.get("known"))
        generator.load_state_dict(dict(state))
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, HoldfastError) as error:
        raise BadData(f"not a learned mixture ({first_line(error)}); save one with holdfast's learner") from error
    return LearnedNoise(generator.eval().requires_grad_(False), ball)


def pack(noise: LearnedNoise) -> dict[str, Tensor]:
    """Return the noise as named tensors, "description" being UTF-8 bytes; the images it is bound to are left out."""
    # As bytes, since what observations return are tensors alone
    text = torch.tensor(list(describe(noise).encode()), dtype=torch.uint8)
    state = {f"network.{name}": value.detach().cpu() for name, value in noise.generator.state_dict().items()}
    return {"description": text, **state}


def unpack(tensors: Mapping[str, Tensor]) -> LearnedNoise:
    """Return the noise that `pack` turned into tensors; other tensors are left alone.

    Raises:
        HoldfastError: tensors that are missing or do not fit.
    """
    if "description" not in tensors:
        raise BadData("not a learned mixture: expected a tensor 'description'; save one with holdfast's learner")
    network = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
    return restore(bytes(tensors["description"].tolist()).decode(), network)
