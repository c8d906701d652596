"""The loops that run on the device, each as a function of its number of steps: to be timed, and to count waits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Certifier, Encoder, Margin, Rng, Shard, registry
from holdfast.parts.attacks.shared.tournament import Sought, tournament
from holdfast.parts.estimators.counting import Counting
from holdfast.parts.failures.nearest import Nearest
from holdfast.parts.learners.universal import Universal
from holdfast.parts.learners.worst_mixture import WorstMixture
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.sampled import Sampled
from holdfast.parts.observations.smoothed import Smoothed, block_size
from holdfast.parts.smoothing.center import Center
from holdfast.parts.smoothing.classifier import Classifier
from holdfast.parts.smoothing.pair_probability import PairProbability
from holdfast.parts.smoothing.shared.certificate import Certificate
from holdfast.parts.threats.l2 import L2
from holdfast.parts.threats.linf import Linf
from holdfast.parts.threats.uniform import Uniform

Run = Callable[[int], object]
"""Runs a loop of so many steps."""


@dataclass(frozen=True)
class Setting:
    """What loops run on.

    Attributes:
        encoder: on the device.
        x: images there.
    """

    encoder: Encoder
    x: Tensor

    @property
    def rng(self) -> Rng:
        """Random numbers of these images."""
        return Rng(0, ids=tuple(f"image {number}" for number in range(len(self.x))))

    @cached_property
    def clean(self) -> Tensor:
        """The representations of the images as they are."""
        with torch.no_grad():
            return self.encoder(self.x)

    @property
    def shard(self) -> Shard:
        """The images as observations are given them."""
        places = torch.arange(len(self.x))
        return Shard(self.encoder, self.x, places, self.rng, self.clean, lambda other: self.x[other.to(self.x.device)])


Loop = Callable[[Setting], Run]
"""Makes a loop on a setting."""


def _attack(name: str, ball: Ball) -> Loop:
    made: Callable[..., Attack] = registry.find("attacks", name)

    def make(at: Setting) -> Run:
        goal = Untargeted().pursue(at.encoder, at.clean)
        return lambda steps: made(steps=steps)(goal, at.x, ball, at.rng)

    return make


def _smallest_change(at: Setting) -> Run:
    event, rows = Nearest().bind(at.shard), torch.arange(len(at.x), device=at.x.device)

    def value(reps: Tensor) -> Tensor:
        return event(reps[:, None].double(), rows).squeeze(1)

    def goal(x: Tensor) -> tuple[Tensor, Tensor]:
        reps = at.encoder(x)
        return value(reps).to(x), reps

    sought = Sought(goal, lambda reps: value(reps) > 0)
    return lambda steps: tournament(sought, at.x, L2(0.5), 4 * steps, at.rng)


ATTACKS: Mapping[str, Loop] = {
    **{name: _attack(name, Linf(0.05)) for name in ("pgd", "bim", "apgd", "square", "minimum_norm", "carlini_wagner")},
    **{f"{name}, l2": _attack(name, L2(0.5)) for name in ("pgd", "apgd", "square")},
    "breaking_radius": _smallest_change,
}
"""All attacks, and the search for the smallest change, a step of which is four of PGD."""


def _learner(learner: Callable[[int], Universal | WorstMixture]) -> Loop:
    def make(at: Setting) -> Run:
        event, made, clean = Nearest().bind(at.shard), learner(len(at.x)), at.clean.double()
        return lambda steps: replace(made, epochs=steps).learn(at.encoder, at.x, clean, event, None, Linf(0.05), at.rng)

    return make


LEARNERS: Mapping[str, Loop] = {
    "universal": _learner(lambda count: Universal(batch=count, images=count)),
    "worst_mixture": _learner(
        lambda count: WorstMixture(batch=count, images=count, structure="input", latent=8, side=4, hidden=16)
    ),
}
"""Those that learn a noise: a step is an epoch of one batch."""


def margin(at: Setting) -> Margin:
    """Return two random rows for each image, which bounds are asked for."""
    count = len(at.x)
    weights = torch.randn(count, 2, at.clean.shape[1], generator=torch.Generator().manual_seed(0))
    return Margin(weights, torch.zeros(count, 2)).to(at.x)


def _certifier(name: str, fields: Callable[[int], dict[str, int]]) -> Loop:
    made: Callable[..., Certifier] = registry.find("certifiers", name)

    def make(at: Setting) -> Run:
        rows = margin(at)
        return lambda steps: made(**fields(steps))(at.encoder, rows, at.x, Linf(0.01))

    return make


CERTIFIERS: Mapping[str, Loop] = {
    "alpha_crown, margin": _certifier("alpha_crown", lambda steps: {"inside": 0, "steps": steps}),
    "alpha_crown, inside": _certifier("alpha_crown", lambda steps: {"inside": steps, "steps": 0}),
    "beta_crown, leaf steps": _certifier(
        "beta_crown", lambda steps: {"inside": 0, "steps": 1, "splits": 2, "leaf_steps": steps}
    ),
}
"""A step is one of ascent."""


def _smoothing(certificate: Callable[[int], Certificate]) -> Loop:
    def make(at: Setting) -> Run:
        block, shard = block_size(at.x), replace(at.shard, clean=at.clean.cpu())
        return lambda steps: Smoothed(0.5, (certificate(steps * block),)).run(shard)

    return make


def _counted(at: Setting) -> Run:
    counted, shard = Sampled(noise=Uniform(Linf(0.05))), replace(at.shard, clean=at.clean.cpu())
    return lambda steps: replace(counted, asks=((Nearest(), Counting(32 * steps)),)).run(shard)


DRAWS: Mapping[str, Loop] = {
    "smoothing, pair probability": _smoothing(lambda count: PairProbability(draws=count, negatives=2, precision=0.0)),
    "smoothing, classifier": _smoothing(lambda count: Classifier(draws=count, selection=1)),
    "smoothing, centre": _smoothing(lambda count: Center(draws=count, distances=count)),
    "failures counted": _counted,
}
"""Noisy draws: a step is a block of draws of every image, one encoder pass for each."""


def small_network() -> nn.Module:
    """Return a network of all that counts: convolution, activation and a linear layer, [B, 1, 8, 8] to [B, 12]."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 12))
