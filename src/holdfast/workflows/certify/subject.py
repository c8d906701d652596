"""Two images as a population of which the first is attacked: what measures of pairs read from."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from holdfast.auditing.images import memory_format
from holdfast.auditing.plan import CLEAN
from holdfast.core import Ball, Encoder, Failure, Images, Measure, Observation, Positions, Rng, Shard
from holdfast.core.own_ball import balls_of, require_one_ball
from holdfast.core.precision import use_precision
from holdfast.core.threat import image_shape
from holdfast.runtime.errors import Unsupported
from holdfast.runtime.foreign import forbid_mutation, foreign


class Pair:
    """An image, and the one other that it must not be nearer to; a `holdfast.core.Subject`.

    Args:
        encoder: the encoder, on its device.
        images: both, [2, C, H, W].
        ids: their names, to which random numbers are bound.
        seed: of the run.
    """

    population, attacked, labels, relevance, has_training_set = 2, 1, None, None, False

    def __init__(self, encoder: Encoder, images: Images, ids: tuple[str, str], seed: int):
        # As audits lay them out in memory, on which the rounding of convolutions depends
        network: Any = encoder
        network.to(memory_format=(layout := memory_format(encoder)))
        self.images = images.to(encoder.device).contiguous(memory_format=layout)
        self.encoder, self.ids, self.seed = encoder, ids, seed
        self._seen: dict[Observation, Mapping[str, Tensor]] = {}

    @cached_property
    def reps(self) -> Float[Tensor, "two dim"]:
        """The representations of both."""
        self.observe(CLEAN)
        return self.column(CLEAN, "reps")

    def observe(self, observation: Observation, instead: Observation | None = None) -> None:
        """Observe the image, unless that is done; `instead` observes more than is asked for."""
        # Equal keys see the same, so a search serves every certifier beside it
        if observation.key() in self._seen:
            return
        shard = self._shard(2) if observation == CLEAN else self.shard(1)
        # A ball of a user's own may mean several
        for ball in balls_of(observation):
            require_one_ball(ball, image_shape(shard.x))
        with (
            use_precision("float32", shard.x.device),
            forbid_mutation("an attack, or another part that runs here,", shard.x, shard.clean),
            foreign(f"encoder {self.encoder.name!r}", "observed", wrap=True),
        ):
            self._seen[observation.key()] = (instead or observation).run(shard)

    def take(self, observation: Observation, seen: Mapping[str, Tensor]) -> None:
        """Take something for what an observation saw that could not be made."""
        self._seen[observation.key()] = seen

    def measure(self, measure: Measure, *columns: str) -> list[float]:
        """Return numbers of a measure about the image, by their columns in its table."""
        for observation in measure.observations():
            self.observe(observation)
        # Rows are of the whole population, and the image is its first
        table = measure.observe(self)
        return [float(table[name][0]) for name in columns]

    def column(self, observation: Observation, name: str) -> Tensor:
        """Return one tensor of what an observation saw."""
        return self._seen[observation.key()][name]

    def batch(self, start: int, stop: int) -> Images:
        """Return some of the two."""
        return self.images[start:stop]

    def read_again(self) -> list[tuple[str, str]]:
        """Nothing: both are in memory."""
        return []

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what an observation saw."""
        return dict(self._seen[observation.key()])

    def refusal(self, observation: Observation) -> str:
        """Nothing: whoever asks has taken something for it."""
        return ""

    def collect_points(self, ball: Ball) -> list[Float[Tensor, "images points dim"]]:
        """Return what all searches met inside a ball, in float64; where outside, the image itself."""
        # NaN stands for what lies outside
        met = (seen.collect_points(ball, dict(results)) for seen, results in self._seen.items())
        own = self.reps[:1, None]
        return [torch.where(reps.isnan(), own, reps).double() for reps in met if reps is not None]

    def shard(self, count: int) -> Shard:
        """Return the image, and what is known of both."""
        return self._shard(count, self.reps)

    def _shard(self, count: int, clean: Tensor | None = None) -> Shard:
        # By the names, so that other pairs change nothing
        rng = Rng(self.seed, ids=self.ids[:count])
        return Shard(self.encoder, self.images[:count], torch.arange(count), rng, clean, self._others)

    def _others(self, positions: Positions) -> Images:
        return self.images[positions.to(self.images.device)]

    def broke(self, failure: Failure, ball: Ball) -> Bool[Tensor, "attacked"]:
        """Refuse: a pair has no population that an image could fail in."""
        self._refuse()

    def bank(self, threat: Any = None) -> Any:
        """Refuse: a pair has nothing to learn from."""
        self._refuse()

    def fit_probe(self, probe: Any, threat: Any = None) -> Any:
        """Refuse: a pair has nothing to learn from."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unsupported("expected a measure of two images, got one that reads a population; take an audit")
