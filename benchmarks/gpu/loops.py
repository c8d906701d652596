"""The loops that run on the device, each as a function of its number of steps: to be timed, and to count waits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from holdfast.core import Attack, Ball, Bound, Certifier, Encoder, Margin, Rng, Shard, registry
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

    @property
    def clean(self) -> Tensor:
        """The representations of the images as they are."""
        with torch.no_grad():
            return self.encoder(self.x)

    @property
    def shard(self) -> Shard:
        """The images as observations are given them."""
        places = torch.arange(len(self.x))
        return Shard(self.encoder, self.x, places, self.rng, self.clean, lambda other: self.x[other.to(self.x.device)])


def attack(setting: Setting, made: Callable[[int], Attack], ball: Ball) -> Run:
    """Return the loop of an attack."""
    clean = setting.clean
    goal = Untargeted().pursue(setting.encoder, clean)
    return lambda steps: made(steps)(goal, setting.x, ball, setting.rng)


def attacks(setting: Setting) -> dict[str, Run]:
    """Return the loops of all attacks, and of the search for the smallest change."""
    makers: dict[str, Callable[[int], Attack]] = {}
    for name in ("pgd", "bim", "apgd", "square", "minimum_norm", "carlini_wagner"):
        part = registry.find("attacks", name)
        makers[name] = lambda steps, part=part: part(steps=steps)
    loops = {name: attack(setting, made, Linf(0.05)) for name, made in makers.items()}
    loops |= {f"{name}, l2": attack(setting, makers[name], L2(0.5)) for name in ("pgd", "apgd", "square")}
    return loops | {"breaking_radius": _smallest_change(setting)}


def _smallest_change(setting: Setting) -> Run:
    event, rows = Nearest().bind(setting.shard), torch.arange(len(setting.x), device=setting.x.device)

    def value(reps: Tensor) -> Tensor:
        return event(reps[:, None].double(), rows).squeeze(1)

    def goal(x: Tensor) -> tuple[Tensor, Tensor]:
        reps = setting.encoder(x)
        return value(reps).to(x), reps

    sought = Sought(goal, lambda reps: value(reps) > 0)
    return lambda steps: tournament(sought, setting.x, L2(0.5), 4 * steps, setting.rng)


def learners(setting: Setting) -> dict[str, Run]:
    """Return the loops of those that learn a noise: a step is an epoch of one batch."""
    event, clean = Nearest().bind(setting.shard), setting.clean.double()

    def learn(learner: Universal | WorstMixture) -> Run:
        return lambda steps: replace(learner, epochs=steps).learn(
            setting.encoder, setting.x, clean, event, None, Linf(0.05), setting.rng
        )

    count = len(setting.x)
    return {
        "universal": learn(Universal(batch=count, images=count)),
        "worst_mixture": learn(WorstMixture(batch=count, images=count, structure="input", latent=8, side=4, hidden=16)),
    }


def margin(setting: Setting) -> Margin:
    """Return two random rows for each image, which bounds are asked for."""
    count = len(setting.x)
    weights = torch.randn(count, 2, setting.clean.shape[1], generator=torch.Generator().manual_seed(0))
    return Margin(weights, torch.zeros(count, 2)).to(setting.x)


def certifiers(setting: Setting) -> dict[str, Callable[[int], Bound]]:
    """Return the loops of certifiers: a step is one of ascent."""
    rows = margin(setting)

    def bound(made: Callable[[int], Certifier]) -> Callable[[int], Bound]:
        return lambda steps: made(steps)(setting.encoder, rows, setting.x, Linf(0.01))

    alpha, beta = (registry.find("certifiers", name) for name in ("alpha_crown", "beta_crown"))
    return {
        "alpha_crown, margin": bound(lambda steps: alpha(inside=0, steps=steps)),
        "alpha_crown, inside": bound(lambda steps: alpha(inside=steps, steps=0)),
        "beta_crown, leaf steps": bound(lambda steps: beta(inside=0, steps=1, splits=2, leaf_steps=steps)),
    }


def draws(setting: Setting) -> dict[str, Run]:
    """Return the loops of noisy draws: a step is a block of draws of every image, one encoder pass for each."""
    clean, block = setting.clean.cpu(), block_size(setting.x)
    shard = replace(setting.shard, clean=clean)
    smooth: dict[str, Callable[[int], Certificate]] = {
        "smoothing, pair probability": lambda count: PairProbability(draws=count, negatives=2, precision=0.0),
        "smoothing, classifier": lambda count: Classifier(draws=count, selection=1),
        "smoothing, centre": lambda count: Center(draws=count, distances=count),
    }

    def read(made: Callable[[int], Certificate]) -> Run:
        return lambda steps: Smoothed(0.5, (made(steps * block),)).run(shard)

    loops: dict[str, Run] = {name: read(made) for name, made in smooth.items()}
    counted = Sampled(noise=Uniform(Linf(0.05)))
    loops["failures counted"] = lambda steps: replace(counted, asks=((Nearest(), Counting(32 * steps)),)).run(shard)
    return loops


def small_network() -> nn.Module:
    """Return a network of all that counts: convolution, activation and a linear layer, [B, 1, 8, 8] to [B, 12]."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 12))
