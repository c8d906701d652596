"""A stand-in for an audit that has not been run: what a rehearsal gives observations and measures to read.

Representations but those of a few real images are made up around these, so that comparing them takes as long as it
will.
"""

from dataclasses import fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.auditing.stretch import memory_format
from holdfast.core import (
    Ball,
    Bank,
    Classifier,
    Encoder,
    Failure,
    Head,
    HoldfastError,
    Images,
    Observation,
    Positions,
    Probe,
    Reps,
    Rng,
    Scope,
    Shard,
    Threat,
)
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.represented import Represented
from holdfast.parts.observations.worst_noise import WorstNoise
from holdfast.sources.data import ImageSet

VALUES = 2**27
"""Numbers that made-up representations take at most (512 MiB); of a larger population the first ones are made up."""

SPREAD = 0.5
"""How far made-up representations lie around the real ones, in standard deviations of these."""


class Unrehearsed(HoldfastError):
    """Something that an observation reads has not been rehearsed."""


class StandIn:
    """An encoder, its images and made-up representations; a `holdfast.core.Subject`.

    Args:
        encoder: the encoder, on its device.
        images: the population, rendered for it.
        attacked: how many of them are attacked.
        seed: of the audit.
        device: where the encoder runs.
        real: representations of some images, [B, D], from which the others are made up.
        train: the images that probes learn from; None: those that are not attacked.
    """

    def __init__(
        self,
        encoder: Encoder,
        images: ImageSet,
        *,
        attacked: int,
        seed: int,
        device: str,
        real: Reps,
        train: ImageSet | None = None,
    ):
        self.encoder, self.images, self.attacked, self.seed, self._device = encoder, images, attacked, seed, device
        self.train, self.learned_noise = train, dict[Observation, dict[str, Tensor]]()
        self.population = min(len(images), max(2, VALUES // real.shape[1]))
        self.clean = made_up(real, self.population, seed)
        self.clean[: len(real)] = real[
            : self.population
        ]  # of the images that are rehearsed: margins of others are lost
        labels = images.labels
        self.labels: Int[Tensor, "population"] | None = None
        if labels is not None:
            self.labels = torch.tensor(labels[: self.population], dtype=torch.int64)

    @property
    def ids(self) -> list[str]:
        """The ids of the images that there are representations of."""
        return self.images.ids[: self.population]

    @property
    def trained_apart(self) -> bool:
        """Whether probes learn from images of their own."""
        return self.train is not None

    def batch(self, start: int, stop: int) -> Images:
        """Return images of the population on the encoder's device."""
        return self._at(self.images, range(start, stop))

    def _at(self, images: ImageSet, places: range) -> Images:
        x = images.pick(places)
        return x.to(self._device).contiguous(memory_format=memory_format(self.encoder))

    def shard_of(self, observation: Observation, start: int, stop: int, extent: int) -> Shard:
        """Return images `start` to `stop` (excluded) of those that an observation sees, as it will see them.

        Args:
            observation: what is rehearsed.
            start: first of its images, or rows.
            stop: end of them.
            extent: how many images it sees in the audit.
        """
        if observation.scope is Scope.SYNTHETIC:
            x, rows = self.batch(0, 1), torch.arange(start, stop)
            return Shard(self.encoder, x, rows, Rng(self.seed), None, self._others, read=self.read)
        if observation.scope.training:
            return self._of_training(observation, start, stop)
        first = len(self.images) - extent if observation.scope is Scope.LAST else 0
        places = range(first + start, min(first + stop, self.population))
        x = self._at(self.images, places)
        rng = Rng(self.seed, ids=tuple(self.images.ids[place] for place in places))
        head = None if self.labels is None else self._head
        at = torch.arange(places.start, places.stop)
        return Shard(self.encoder, x, at, rng, self.clean, self._others, self.labels, head, self.read)

    def shard(self, count: int) -> Shard:
        """Return what is known of the first images, without their pixels."""
        shard, ids = self.shard_of(Clean(), 0, 1, 1), tuple(self.ids[:count])
        x = shard.x.cpu().expand(count, -1, -1, -1)
        return replace(shard, x=x, positions=torch.arange(count), rng=Rng(self.seed, ids=ids))

    def reached(self, ball: Ball) -> list[Float[Tensor, "images points dim"]]:
        """Return made-up representations, as if one search had met them."""
        rows = min(self.attacked, self.population)
        return [made_up(self.clean[:rows], rows, self.seed + 1)[:, None].double()]

    def broke(self, failure: Failure, ball: Ball) -> Bool[Tensor, "attacked"]:
        """Return which of the attacked images fail for made-up representations."""
        (points,) = self.reached(ball)
        rows = torch.arange(len(points))
        return (failure.bind(self.shard(len(points)))(points, rows) > 0).any(1).cpu()

    def _of_training(self, observation: Observation, start: int, stop: int) -> Shard:
        images = self.images if self.train is None else self.train
        first = self.attacked if self.train is None else 0
        places = range(first + start, first + stop)
        ids, labels = tuple(images.ids[place] for place in places), images.labels
        if observation.scope is Scope.TRAINING:
            return Shard(
                self.encoder, self._at(images, places), torch.arange(start, stop), Rng(self.seed, ids=ids), None
            )

        def others(positions: Positions) -> Images:
            return torch.cat([self._at(images, range(first + at, first + at + 1)) for at in positions.tolist()])

        return Shard(
            self.encoder,
            self._at(images, places[:1]),
            torch.arange(1),
            Rng(self.seed, ids=ids),
            self.clean,
            others,
            None if labels is None else torch.tensor([labels[place] for place in places]),
            read=self.read,
        )

    def _others(self, positions: Positions) -> Images:
        x = self.images.pick(positions.tolist())
        return x.to(self._device).contiguous(memory_format=memory_format(self.encoder))

    def _head(self, probe: Probe, threat: Threat | None = None) -> Head:
        """Return a head that nothing was learned for: what it costs does not depend on its weights."""
        assert self.labels is not None
        classes = self.labels.unique()
        numbers = torch.Generator().manual_seed(self.seed)
        weights = torch.randn(len(classes), self.clean.shape[1], generator=numbers)
        return Head(weights, torch.zeros(len(classes)), classes)

    def prepare(self, observation: Observation) -> None:
        """Make what an observation reads, which is no part of its own time.

        Raises:
            Unrehearsed: something that cannot be made in a moment.
        """
        for field in fields(observation):  # pyright: ignore[reportArgumentType] observations are dataclasses
            if isinstance(other := getattr(observation, field.name), WorstNoise):
                self.read(other)

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return made-up representations for an observation of these, or a noise learned in a moment.

        Raises:
            Unrehearsed: any other observation.
        """
        if isinstance(observation, Clean):
            return {"reps": self.clean}
        if isinstance(observation, (Attacked, Represented)):
            rows = observation.images(self.population, min(self.attacked, self.population))
            reps = made_up(self.clean[:rows], rows, self.seed + 1)
            if isinstance(observation, Represented):
                return {"reps": reps}
            steps = max(observation.steps) + 1
            return {f"reps@{step}": reps for step in observation.steps} | {"values": torch.rand(rows, steps)}
        if isinstance(observation, WorstNoise):
            if observation not in self.learned_noise:
                self.learned_noise[observation] = self._learned_in_a_moment(observation)
            return self.learned_noise[observation]
        raise Unrehearsed(f"{type(observation).__name__} has not been rehearsed")

    def _learned_in_a_moment(self, observation: WorstNoise) -> dict[str, Tensor]:
        extent = observation.images(len(self.images), self.attacked)
        brief = replace(observation, learner=replace(observation.learner, epochs=1))
        return brief.run(self.shard_of(observation, 0, min(extent, 2 * observation.learner.batch), extent))

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return made-up representations of images that are not attacked.

        Raises:
            Unrehearsed: training images of their own, of which there may be any number; images without labels.
        """
        if self.trained_apart or self.labels is None:
            raise Unrehearsed("training images have not been rehearsed")
        reps = self.clean[self.attacked :]
        return Bank(self.labels[self.attacked :], lambda: iter([reps]))

    def learned(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        """Return what a probe learns from made-up representations."""
        if probe.through or not probe.trains:
            raise Unrehearsed("this probe has not been rehearsed")
        return probe.learn(self.bank(threat))


def made_up(real: Float[Tensor, "real dim"], count: int, seed: int) -> Float[Tensor, "made dim"]:
    """Return so many representations [count, D] around some real ones, all different; on the CPU, in float32."""
    real = real.float().cpu()
    numbers = torch.Generator().manual_seed(seed)
    spread = real.std(0, correction=0).clamp_min(1e-6) * SPREAD
    made = torch.randn(count, real.shape[1], generator=numbers).mul_(spread)
    for start in range(0, count, len(real)):
        part = made[start : start + len(real)]
        part += real[: len(part)]
    return made
