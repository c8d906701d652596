"""An encoder that has been observed: what measures and checks read from."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core.classifier import Bank, Classifier, Probe
from holdfast.core.encoder import Encoder, Images
from holdfast.core.observation import Failure, Observation, Shard
from holdfast.core.threat import Ball, Threat
from holdfast.numerics.geometry.relevance import Relevance


@runtime_checkable
class Subject(Protocol):
    """An encoder that has been observed: what measures and checks read from."""

    @property
    def encoder(self) -> Encoder:
        """The encoder."""
        ...

    @property
    def seed(self) -> int:
        """The seed of the run."""
        ...

    @property
    def population(self) -> int:
        """How many images there are."""
        ...

    @property
    def attacked(self) -> int:
        """How many images, the first ones of the population, were attacked."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """The id of every image of the population."""
        ...

    @property
    def labels(self) -> Int[Tensor, "population"] | None:
        """The class of every image of the population; None where the source does not know them all."""
        ...

    @property
    def relevance(self) -> Relevance | None:
        """Which images of the population are relevant to which; None where these are no retrieval task."""
        ...

    def batch(self, start: int, stop: int) -> Images:
        """Return some images of the population."""
        ...

    def read_again(self) -> list[tuple[str, str]]:
        """Return the (id, how) of some images across all sets: how each has changed since the audit began; "": not."""
        ...

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw, all shards together, one row per image."""
        ...

    def refusal(self, observation: Observation) -> str:
        """Return why nothing could be proved in an optional observation of a measure; "" where something was."""
        ...

    def collect_points(self, ball: Ball) -> list[Float[Tensor, "images points dim"]]:
        """Return what all measures' searches met inside a ball, whatever they pursue; see `Observation.collect_points`.

        One tensor in float64 for each of them, of the first M_i attacked images.
        """
        ...

    def shard(self, count: int) -> Shard:
        """Return what is known of the first images, without their pixels, to which failures and margins are bound."""
        ...

    def broke(self, failure: Failure, ball: Ball) -> Bool[Tensor, "attacked"]:
        """Return which of the attacked images failed anywhere inside a ball, in this run."""
        ...

    @property
    def has_training_set(self) -> bool:
        """Whether probes learn from images of their own; else from those of the population that are not attacked."""
        ...

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return the representations of the training images, disturbed by a threat or as they are, and their labels."""
        ...

    def fit_probe(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        """Return what a probe learns from the training images, disturbed by a threat or as they are."""
        ...
