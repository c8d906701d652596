"""What a record shows of an encoder in pictures: attacked images, smallest changes, noises, where it looks."""

from typing import Annotated, Any

from msgspec import Meta

from holdfast.storage.entry import BallEntry, Count, Entry, Number, PassesEntry, Spec, Values


class Neighbour(Entry, frozen=True, kw_only=True):
    """Another image, and its picture."""

    id: str
    picture: str


class Moved(Entry, frozen=True, kw_only=True):
    """An image that an attack moved far; `placed_among`: `quantile` is a share of the pairs of so many images."""

    id: str
    clean: str
    attacked: str
    difference: str
    before: list[Neighbour]
    after: list[Neighbour]
    drift: Number | None = None
    quantile: Number | None = None
    placed_among: Number | None = None
    drift_map: str = ""


class Broken(Entry, frozen=True, kw_only=True):
    """A smallest change that breaks an image, as pictures; `edit`: what was done, its radius being a strength."""

    id: str
    radius: Number
    norm: str
    levels: Number | None
    amplified: Number
    clean: str
    attacked: str
    difference: str
    rival: Neighbour | None
    edit: str = ""


class HubEntry(Entry, frozen=True, kw_only=True):
    """An image that was changed to come first: `taken` of the `asked` searches, of which some `queries` are shown."""

    id: str
    title: str
    taken: Count
    asked: Count
    amplified: Number
    clean: str
    attacked: str
    difference: str
    queries: list[Neighbour]


class Extreme(Entry, frozen=True, kw_only=True):
    """One of the images that are least or most robust."""

    id: str
    picture: str
    certificate: Number | None
    attack: Number | None


class Extremes(Entry, frozen=True, kw_only=True):
    """The images that are least and most robust by a measure."""

    measure: str = ""
    least: list[Extreme] = []
    most: list[Extreme] = []


class Impersonator(Entry, frozen=True, kw_only=True):
    """An image of one class that was moved towards another, and what the head `said`."""

    id: str
    said: Any
    clean: str
    attacked: str
    taken: Any = None


class Impersonation(Entry, frozen=True, kw_only=True):
    """Images of two classes, each moved towards the other."""

    title: str
    classes: Annotated[list[Any], Meta(min_length=2, max_length=2)]
    sides: Annotated[list[list[Impersonator]], Meta(min_length=2, max_length=2)]


class StripEntry(Entry, frozen=True, kw_only=True):
    """Maps of one kind, of several images, and how far they agree with those of changed images."""

    title: str
    picture: str
    agreement: dict[str, Values]


class AttentionEntry(Entry, frozen=True, kw_only=True):
    """Maps of where the encoder looks; `problem`: why there are none."""

    problem: str | None = None
    images: list[str] = []
    left_out: list[str] = []
    passes: PassesEntry | None = None
    layer: str = ""
    readings: list[str] = []
    probe: Spec | None = None
    strips: list[StripEntry] = []


class Draw(Entry, frozen=True, kw_only=True):
    """An image under one draw of a noise, as pictures."""

    disturbed: str
    difference: str


class SampleEntry(Entry, frozen=True, kw_only=True):
    """An image, and draws of a noise on it."""

    id: str
    group: Count
    clean: str
    draws: list[Draw]


class Weights(Entry, frozen=True, kw_only=True):
    """The weights of a mixture: over all images, and of each group of them."""

    mean: Values
    groups: list[Values]


class Means(Entry, frozen=True, kw_only=True):
    """The means of a mixture, in a table."""

    table: str
    size: Count


class Covariance(Entry, frozen=True, kw_only=True):
    """The covariance of a mixture, in a table, block by block."""

    table: str
    size: Count
    block: Count


class NoiseTraining(Entry, frozen=True, kw_only=True):
    """How a noise was learned: the chance of failure and the entropy of its weights after each epoch."""

    chance: Values
    entropy: Values


class NoiseEntry(Entry, frozen=True, kw_only=True):
    """A noise that was learned, and what it makes of a few images; `problem`: why there are no pictures of it."""

    structure: str
    failure: str
    ball: BallEntry
    measures: list[str]
    file: str | None
    training: NoiseTraining
    title: str = ""
    problem: str | None = None
    learned_on: Count = 0
    images: Count | None = None
    grouped: str | None = None
    groups: list[str] | None = None
    table: str | None = None
    cells: Count | None = None
    origin: Annotated[Values, Meta(min_length=2, max_length=2)] | None = None
    explained: Values | None = None
    amplified: Number | None = None
    weights: Weights | None = None
    means: Means | None = None
    covariance: Covariance | None = None
    pictures: list[SampleEntry] | None = None

    def __post_init__(self) -> None:
        drawn = ("images", "grouped", "groups", "table", "cells", "origin", "explained", "weights", "means",
                 "covariance", "pictures")  # fmt: skip
        if missing := [name for name in drawn if getattr(self, name) is None and not self.problem]:
            raise ValueError(f"{missing[0]} is missing")


class Disturbed(Entry, frozen=True, kw_only=True):
    """An image and what a perturbation makes of it, as pictures."""

    id: str
    clean: str
    disturbed: str


class Perturbation(Entry, frozen=True, kw_only=True):
    """A perturbation that is the same for all images, amplified around grey, and what it makes of a few of them."""

    title: str
    measures: list[str]
    learned_on: Count
    amplified: Number
    picture: str
    pictures: list[Disturbed]
    file: str = ""
