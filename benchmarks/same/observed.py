"""An encoder that has been observed, as measures read it: what it was observed to give is given here."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.same import inputs
from holdfast.core import (
    Attack,
    Ball,
    Bank,
    Classifier,
    Encoder,
    Failure,
    Images,
    Observation,
    Probe,
    Rng,
    Shard,
    Threat,
)
from holdfast.parts.smoothing.shared.certificate import Anchor, Certificate
from holdfast.parts.threats.linf import Linf


def encoder() -> Encoder:
    """Return the network of `inputs.py`."""
    return Encoder(inputs.network(), mean=0, std=1, name="small")


@dataclass(frozen=True)
class Started(Linf):
    """A ball in which attacks begin where `inputs.py` says, so that two implementations take the same way.

    Attributes:
        share: how many times as far from the image.
    """

    share: float = 1.0

    def sample(self, x: Images, rng: Rng) -> Images:
        """Return the starts."""
        return x + self.radius * self.share * inputs.starts(tuple(x.shape))


def attacked(
    attack: Attack, goal: Callable[[Tensor], tuple[Tensor, Tensor]], x: Images, **ball: float
) -> dict[int, Tensor]:
    """Return the images that an attack finds in the ball of `inputs.py`, by the numbers of its steps."""
    steps = [step for step in (5, 10, 30, 50) if step <= attack.steps] + [attack.steps]
    rng = Rng(0, ids=tuple(map(str, range(len(x)))))
    return attack(goal, x, Started(inputs.RADIUS, **ball), rng, sorted(set(steps))).images


@dataclass
class Observed:
    """A subject whose observations are looked up.

    Attributes:
        clean: representations of the population, [N, D].
        seen: gives what an observation saw.
        labels: classes.
    """

    clean: Tensor
    seen: Callable[[Observation], dict[str, Tensor]]
    labels: Tensor | None = None
    encoder: Encoder = None  # type: ignore
    x: Tensor = None  # type: ignore
    attacked: int = 0
    seed: int = 0
    relevance: None = None
    has_training_set = False

    def __post_init__(self) -> None:
        self.encoder = self.encoder or encoder()
        self.attacked = self.attacked or len(self.clean)

    @property
    def population(self) -> int:
        """How many images there are."""
        return len(self.clean)

    @property
    def ids(self) -> list[str]:
        """Their names."""
        return [str(number) for number in range(len(self.clean))]

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what an observation saw."""
        return self.seen(observation)

    def shard(self, count: int) -> Shard:
        """Return what is known of the first images."""
        rng = Rng(self.seed, ids=tuple(self.ids[:count]))
        return Shard(
            self.encoder, self.x[:count], torch.arange(count), rng, self.clean, lambda at: self.x[at], self.labels
        )

    def batch(self, start: int, stop: int) -> Images:
        """Return images."""
        return self.x[start:stop]

    def read_again(self) -> list[tuple[str, str]]:
        """Return nothing: no file is behind these images."""
        return []

    def refusal(self, observation: Observation) -> str:
        """Return nothing: everything was observed."""
        return ""

    def collect_points(self, ball: Ball) -> list[Tensor]:
        """Return nothing: there were no other searches."""
        return []

    def broke(self, failure: Failure, ball: Ball) -> Tensor:
        """Return that no other search broke an image."""
        return torch.zeros(self.attacked, dtype=torch.bool)

    def bank(self, threat: Threat | None = None) -> Bank:
        """Refuse: there are no training images."""
        raise NotImplementedError

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        """Refuse: there are no training images."""
        raise NotImplementedError


def told(clean: Tensor, found: dict[int, Tensor], **more: Tensor) -> Observed:
    """Return a subject that was attacked: its clean representations, and those after so many steps."""
    reps = {"reps": clean} | {f"reps@{step}": value for step, value in found.items()} | more
    subject = Observed(clean, lambda _: reps)
    return replace(subject, attacked=len(next(iter(found.values()))))


def real(x: Tensor, **named: Tensor) -> Observed:
    """Return a subject whose observations are made when they are asked for, on the network of `inputs.py`."""
    network = encoder()
    with torch.no_grad():
        clean = network(x)

    def look(observation: Observation) -> dict[str, Tensor]:
        return {"reps": clean} if observation.title == "clean" else observation.run(subject.shard(len(x)))

    subject = Observed(clean, look, encoder=network, x=x, **named)  # type: ignore
    return subject


def draws(seed: int, count: int, sigma: float) -> Tensor:
    """Return representations of the first image under noise."""
    x = inputs.images(6)
    noise = sigma * inputs.single(inputs.normal(seed, count, *x[0].shape))
    return encoder()(x[0] + noise).detach()


def concluded(certificate: Certificate, sigma: float, *blocks: Tensor) -> dict[str, Tensor]:
    """Return what a certificate says of the first of six images, from blocks of draws that it is sent."""
    reps = encoder()(inputs.images(6)).detach()
    sampling = certificate.sample(Anchor(sigma, 0, reps, Rng(0, ids=("0",))))
    next(sampling)
    try:
        for block in blocks:
            sampling.send(block)
    except StopIteration as done:
        return certificate.conclude({name: value[None] for name, value in done.value.items()}, sigma)
    raise AssertionError("the certificate asks for more draws")
