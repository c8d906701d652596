"""The nouns of Holdfast. Read this file first.

    images -> threat -> attack | certifier -> encoder -> observations -> tables -> scores -> record -> report

Every image is a tensor of pixels in [0, 1]; every epsilon, sigma and radius is in those pixel units.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import PIL.Image
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.checked import Checked
from holdfast.encoder import Encoder, Geometry, Images, Passes, Reps
from holdfast.errors import HoldfastError
from holdfast.labels import Bank, Classifier, Head, LinearProbe, Probe
from holdfast.observing import Event, Failure, Observation, Positions, Search, Shard
from holdfast.rng import Rng
from holdfast.worst_case import (
    Attack,
    Ball,
    Bound,
    Certifier,
    Corruption,
    Draws,
    Goal,
    Margin,
    Noise,
    Objective,
    PerImage,
    Rows,
    Threat,
    Trajectory,
)  # fmt: skip

__all__ = [
    "Attack", "Ball", "Bank", "Bound", "Certifier", "Check", "Classifier", "Corruption", "Draws", "Encoder", "Event",
    "Failure", "Geometry", "Goal", "Head", "HoldfastError", "ImageSource", "Images", "LinearProbe", "Margin", "Measure",
    "Noise", "Objective", "Observation", "Passes", "PerImage", "Positions", "Probe", "Reps", "Rng", "Rows", "Score",
    "Search", "Shard", "Subject", "Table", "Threat", "Trajectory", "Verdict",
]  # fmt: skip

Table = dict[str, Tensor]
"""Named columns of equal length, one row per image: what a measure observed."""


# --- images ---------------------------------------------------------------------------------------


class ImageSource(ABC):
    """Where images come from: a numbered collection whose pictures are read when asked for.

    A file that cannot be read raises `HoldfastError` naming it; `holdfast.data.open_images` decides whether
    such files may be skipped.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def id(self, index: int) -> str:
        """Return a stable, unique name of image `index`: the same in every run, on every machine."""

    @abstractmethod
    def load(self, index: int) -> PIL.Image.Image | Float[Tensor, "channel height width"]:
        """Return image `index`: a picture of any size and mode, or pixels in [0, 1]."""

    def label(self, index: int) -> int | None:
        """Return the class of image `index` where the source knows it (used by probes only)."""
        return None

    classes: Sequence[str] = ()
    """Names of the classes by their numbers; empty where the source does not know them."""

    runs: int = 0
    """How many run folders of Holdfast lie among its files; what audits wrote there is none of its images."""

    sized: bool = True
    """Whether its images have a size of their own; else each encoder's geometry gives them one."""


# --- observing and scoring ------------------------------------------------------------------------


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
    def ids(self) -> list[str]:
        """The id of every image of the population."""
        ...

    @property
    def labels(self) -> Int[Tensor, "population"] | None:
        """The class of every image of the population; None where the source does not know them all."""
        ...

    def batch(self, start: int, stop: int) -> Images:
        """Return some images of the population."""
        ...

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what the observation saw, all shards together, one row per image."""
        ...

    def reached(self, ball: Ball) -> list[Float[Tensor, "images points dim"]]:
        """Return what the searches of all measures met inside a ball, whatever they pursued; see `Observation.reached`.

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
    def trained_apart(self) -> bool:
        """Whether probes learn from images of their own; else from those of the population that are not attacked."""
        ...

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return the representations of the training images, disturbed by a threat or as they are, and their labels."""
        ...

    def learned(self, probe: Probe, threat: Threat | None = None) -> Classifier:
        """Return what a probe learns from the training images, disturbed by a threat or as they are."""
        ...


@dataclass(frozen=True)
class Score:
    """A number with its interval.

    No interval has zero width: ends that agree to twelve digits are none, since no sample tells a number exactly.

    Attributes:
        value: the estimate; None where it is not defined (say why in `note`).
        low: lower end of the interval.
        high: upper end of the interval.
        n: independent units behind it (images, or pairs).
        interval: what kind of interval it is and what it is conditional on.
        confidence: its level.
        note: anything a reader must know, such as rows left out.
        unit: of this score, where it is not its measure's.
        checks: names of the checks that it depends on.
        standing: "sound"; or, where one of them failed, what the number still is: a bound that the truth is "at least"
            or "at most", or "void", no number at all.
        because: names of the checks that say so.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    interval: str
    confidence: float = 0.95
    note: str = ""
    unit: str = ""
    checks: tuple[str, ...] = ()
    standing: Literal["sound", "at least", "at most", "void"] = "sound"
    because: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.low is None or self.high is None or abs(self.high - self.low) > 1e-12 * max(abs(self.low), 1e-300):
            return
        object.__setattr__(self, "low", None)
        object.__setattr__(self, "high", None)
        words = "both ends of its interval were one number: no interval"
        object.__setattr__(self, "note", "; ".join(filter(None, [self.note, words])))


class Measure(metaclass=Checked):
    """One question about an encoder; a frozen dataclass whose fields are its parameters.

    `observations` names the encoder passes it needs, `observe` maps what they saw to one row per image, and
    `score` reduces that table; neither of the last two runs the encoder.

    Attributes:
        better: which direction is more robust.
        unit: of the scores.
        question: what it asks, in one sentence.
        how_to_read: what its values mean, for somebody who meets it first.
        reference: where it is defined.
        needs_labels: whether it reads labels; an audit of images without labels then refuses to start.
    """

    better: Literal["lower", "higher"]
    unit: Literal["share", "ratio", "similarity", "pixels"]
    question: str
    how_to_read: str
    reference: str
    needs_labels: bool = False

    @property
    @abstractmethod
    def column(self) -> str:
        """The table's column of per-image values behind the headline."""

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed first."""

    @abstractmethod
    def observe(self, subject: Subject) -> Table:
        """Map: one row per image; no encoder pass."""

    @abstractmethod
    def score(self, table: Table) -> dict[str, Score]:
        """Reduce: named scores of a table; the last one is the headline."""

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches that its scores rely on: those of all that is observed, unless the measure knows better."""
        return tuple(dict.fromkeys(search for seen in self.observations() for search in seen.searches))

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the searches that one of its scores relies on.

        Args:
            score: its name.
        """
        return self.searches

    def if_weak(self, score: str) -> Literal["at least", "at most", "void"]:
        """Return what a score is where a search that it relies on was too weak: it then looks too good, unless said.

        Args:
            score: its name.

        Returns:
            what the truth is, "at least" or "at most" the number; "void" where nothing is known of it.
        """
        return "at most" if self.better == "higher" else "at least"

    def rows(self, table: Table) -> list[str] | None:
        """Return what the rows of a table are called; None where they are the first images of the population."""
        return None

    @abstractmethod
    def influence(self, table: Table) -> Float[Tensor, "units"]:
        """Return each independent unit's influence on the headline, up to a factor.

        The correlation of two encoders' influences on the same images is what a paired comparison gains.
        """


@dataclass(frozen=True)
class Verdict:
    """The outcome of a validity check: pass, warn, fail or skip, what was found, and what that means."""

    status: Literal["pass", "warn", "fail", "skip"]
    finding: str
    meaning: str
    details: dict[str, float] = field(default_factory=dict)


class Check(metaclass=Checked):
    """One way in which an audit could mislead, examined; a frozen dataclass.

    Attributes:
        consequence: what a number that depends on it is where it fails: "void", no number at all; "one side", a bound;
            "caution", what it was.
    """

    consequence: Literal["void", "one side", "caution"] = "caution"

    @property
    def search(self) -> Search | None:
        """The search that it examines; None where it is about more than one search."""
        return None

    def concerns(self, searches: Collection[Search]) -> bool:
        """Return whether a score that relies on some searches depends on this check."""
        return self.search is None or self.search in searches

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed first."""

    @abstractmethod
    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict; passes that it makes itself are counted apart from those of observations."""
