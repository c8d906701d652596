"""The nouns of Holdfast. Read this file first.

    images -> threat -> attack | certifier -> encoder -> observations -> tables -> scores -> record -> report

Every image is a tensor of pixels in [0, 1]; every epsilon, sigma and radius is in those pixel units.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import PIL.Image
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.checked import Checked
from holdfast.encoder import Encoder, Geometry, Images, Passes, Reps
from holdfast.errors import HoldfastError
from holdfast.labels import Bank, Classifier, Head, LinearProbe, Probe
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
    "Shard", "Subject", "Table", "Threat", "Trajectory", "Verdict",
]  # fmt: skip

Positions = Int[Tensor, "batch"]
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

    sized: bool = True
    """Whether its images have a size of their own; else each encoder's geometry gives them one."""


# --- observing and scoring ------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """Some images of an audit, as an observation sees them.

    Observations `of_training` are given training images, without what is known of the population; those that are
    `whole` as well the first image alone, the ids and the labels of all, and the way to the others. Those that are
    `synthetic` are given the first image of the population and, as positions, which of their rows to make.

    Attributes:
        encoder: the encoder under audit.
        x: the images, [B, C, H, W].
        positions: where they stand in the audit's population, [B].
        rng: random numbers bound to the ids of these images.
        clean: clean representations of the *whole* population [N, D], once they are known.
        others: gives images of the population by their positions; None where they cannot be had.
        labels: the class of every image of the population, [N]; None where the source does not know them all.
        head: gives the linear head that a probe learns from training images, disturbed by a threat where one is given;
            None without labels.
        read: gives what an earlier observation saw, one row for each of the population's first images.
    """

    encoder: Encoder
    x: Images
    positions: Positions
    rng: Rng
    clean: Tensor | None
    others: Callable[[Positions], Images] | None = None
    labels: Int[Tensor, "population"] | None = None
    head: Callable[..., Head] | None = None
    read: "Callable[[Observation], dict[str, Tensor]] | None" = None


Event = Callable[[Float[Tensor, "rows draws dim"], Int[Tensor, "rows"]], Float[Tensor, "rows draws"]]
"""A failure bound to the images of a shard: (representations of their disturbed versions, which images of the shard)
-> a value in float64 that is above 0 exactly where it fails, the larger the worse, and differentiable."""


class Failure(metaclass=Checked):
    """What counts as a failure of a disturbed image, seen in its representation; a frozen dataclass.

    Attributes:
        needs_labels: whether it reads labels.
    """

    needs_labels: bool = False

    @property
    @abstractmethod
    def title(self) -> str:
        """What happens, in a few words, for example "misclassified"."""

    @abstractmethod
    def bind(self, shard: Shard) -> Event:
        """Return the event for the images of a shard.

        Raises:
            HoldfastError: labels or other images that are missing.
        """


class Observation(metaclass=Checked):
    """What a measure asks of an encoder; the only place where encoder passes happen. A frozen dataclass.

    Observations that `join` are run once and serve every measure that reads them.

    Attributes:
        needs_labels: whether it reads labels.
        whole: whether it sees all its images at once, to learn from, and returns no row per image.
        of_training: whether it sees the images that probes learn from, instead of the population.
        synthetic: whether it makes images of its own, of the shape of the population's; its rows are then no images.
    """

    needs_labels: bool = False
    whole: bool = False
    of_training: bool = False
    synthetic: bool = False

    @abstractmethod
    def key(self) -> "Observation":
        """Return itself without what does not change the encoder passes; equal keys share one run."""

    @abstractmethod
    def join(self, other: "Observation") -> "Observation":
        """Return one observation that serves both; `other` has the same key."""

    @abstractmethod
    def images(self, population: int, attacked: int) -> int:
        """Return how many images it covers: the first ones of the population, or (`whole`) the last ones.

        An observation `of_training` is given the number of training images, twice. One that is `synthetic` returns how
        many rows it makes.
        """

    @property
    @abstractmethod
    def passes(self) -> Passes:
        """Encoder passes that one image costs."""

    @property
    def remade(self) -> int:
        """How often one image that a search found is represented again in float32, where searches run in less."""
        return 0

    def passes_in(self, precision: str) -> Passes:
        """Return the encoder passes that one image costs where searches run in a precision, see `Encoder.prepare`."""
        return self.passes if precision == "float32" else self.passes + Passes(forward=self.remade)

    @property
    def reads(self) -> "tuple[Observation, ...]":
        """Other observations that must be made before, beside those among its fields."""
        return ()

    @abstractmethod
    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Observe one shard: named tensors whose first dimension is the image.

        Tensors named "gallery.…" hold only some images, worth a picture, with "gallery.position" saying which.
        """


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

    Attributes:
        value: the estimate; None where it is not defined (say why in `note`).
        low: lower end of the interval.
        high: upper end of the interval.
        n: independent units behind it (images, or pairs).
        interval: what kind of interval it is and what it is conditional on.
        confidence: its level.
        note: anything a reader must know, such as rows left out.
        unit: of this score, where it is not its measure's.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    interval: str
    confidence: float = 0.95
    note: str = ""
    unit: str = ""


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
    """One way in which an audit could mislead, examined; a frozen dataclass."""

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed first."""

    @abstractmethod
    def judge(self, subject: Subject) -> Verdict:
        """Return the verdict; passes that it makes itself are counted apart from those of observations."""
