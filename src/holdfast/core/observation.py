"""What is observed: the images of a shard, what counts as a failure, and observations, where encoder passes happen."""

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core import registry
from holdfast.core.album import Album, Entries
from holdfast.core.attack import Attack
from holdfast.core.certificate import Margin
from holdfast.core.chart import Chart
from holdfast.core.classifier import Head, Probe
from holdfast.core.encoder import Encoder, Images, Passes
from holdfast.core.objective import Objective
from holdfast.core.randomness import GROUPS
from holdfast.core.threat import Ball, Corruption, Threat
from holdfast.numerics.geometry.divergence import DistanceMargin
from holdfast.numerics.geometry.relevance import Relevance
from holdfast.numerics.rng import Rng
from holdfast.numerics.shapes import Positions
from holdfast.runtime.checked import Checked


class Scope(Enum):
    """Which images an observation sees, and for what it returns rows."""

    FIRST = "the first images of the population, shard by shard; a row for each"
    LAST = "the last images of the population, all at once, to learn from; no row for each"
    TRAINING = "the images that probes learn from, shard by shard; a row for each, and too many for memory"
    ALL_TRAINING = "the images that probes learn from, all at once, to learn from; no row for each"
    SYNTHETIC = "images of its own, of the shape of the population's; a row for each set of them that it makes"

    @property
    def at_once(self) -> bool:
        """Whether all images are seen at once, to learn from: what is returned has no row for each."""
        return self in (Scope.LAST, Scope.ALL_TRAINING)

    @property
    def training(self) -> bool:
        """Whether the images are those that probes learn from, instead of the population."""
        return self in (Scope.TRAINING, Scope.ALL_TRAINING)


@dataclass(frozen=True)
class Shard:
    """Some images of an audit, as an observation sees them; which ones depends on its `Scope`.

    TRAINING: training images, without what is known of the population. ALL_TRAINING: the first training image alone,
    the ids and the labels of all, and the way to the others. SYNTHETIC: the first image of the population and, as
    positions, which rows to make.

    Attributes:
        encoder: the encoder under audit, or the surrogate that the observation names.
        x: the images, [B, C, H, W].
        positions: where they stand in the audit's population, [B].
        rng: random numbers bound to the ids of these images.
        clean: clean representations of the *whole* population [N, D], once they are known.
        others: gives images of the population by their positions; None where they cannot be had.
        labels: the class of every image of the population, [N]; None where the source does not know them all.
        head: gives the linear head that a probe learns from training images, disturbed by a threat where one is given;
            with `classes_apart` they need not have the classes of the tested images. None without labels.
        read: gives what an earlier observation saw, one row for each of the population's first images; of one that is
            `in_files` the rows of this shard.
        under: gives images that `others` gives, by their positions, under a threat; None: they have no other resolution
            than the encoder's.
        relevance: which images of the population are relevant to which; None where these are no retrieval task.
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
    under: Callable[[Images, Positions, Threat, Rng], Images] | None = None
    relevance: Relevance | None = None

    def select(self, rows: Int[Tensor, "some"] | slice) -> "Shard":
        """Return some of its images, by their places in it: with them go their positions and their random numbers."""
        own = torch.arange(len(self.x))[rows.cpu() if isinstance(rows, Tensor) else rows]
        ids = [self.rng.ids[row] for row in own.tolist()]
        return replace(self, x=self.x[own.to(self.x.device)], positions=self.positions[own], rng=self.rng.at(ids))

    def disturb(self, threat: Threat, rng: Rng, x: Images | None = None, positions: Positions | None = None) -> Images:
        """Return its images under a threat, at the resolution that a corruption is meant for.

        Args:
            threat: what befalls them.
            rng: random numbers bound to their ids.
            x: images that `others` gave, instead of its own.
            positions: where these stand; where its own do, if None.

        Raises:
            HoldfastError: a threat that these images do not fit.
        """
        x, positions = self.x if x is None else x, self.positions if positions is None else positions
        # The ids of its random numbers are those of the images, in their order
        if isinstance(threat, Corruption) and threat.needs_labels and self.labels is not None:
            threat = threat.knowing(dict(zip(rng.ids, self.labels[positions.cpu()].tolist(), strict=True)))
        return threat.sample(x, rng) if self.under is None else self.under(x, positions, threat, rng)


Event = Callable[[Float[Tensor, "rows draws dim"], Int[Tensor, "rows"]], Float[Tensor, "rows draws"]]
"""A failure bound to the images of a shard: (representations of their disturbed versions, which images of the shard)
-> a value in float64 that is above 0 exactly where it fails, the larger the worse, and differentiable."""


@dataclass(frozen=True)
class Rivals:
    """The ways in which each image of a shard can fail: it fails where one of these margins is below zero.

    Attributes:
        margins: a row for each way, likely ones first, in float64; see `Margin`.
        positions: the image of the population that it is then taken for, [B, R]; None where it is not one.
    """

    margins: Margin | DistanceMargin
    positions: Int[Tensor, "batch rivals"] | None = None

    @property
    def count(self) -> int:
        """How many ways there are."""
        rows = self.margins.bias if isinstance(self.margins, Margin) else self.margins.none
        return rows.shape[1]


class Failure(metaclass=Checked):
    """What counts as a failure of a disturbed image, seen in its representation; a frozen dataclass.

    Attributes:
        reads_labels: whether it reads labels, whatever its fields are.
        at_others: whether every image fails once it has become another one of the population, whatever the encoder.
        against_all: whether each image is compared with the whole population, whenever it is judged.
        of_one_way: whether each image fails in one way alone, of which `fails_at` gives an example.
        invariant: which changes of the representation change none of its numbers, see `Measure.invariant`.
    """

    reads_labels: ClassVar[bool] = False
    at_others: bool = False
    against_all: ClassVar[bool] = False
    of_one_way: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str] | None] = None

    @property
    def needs_labels(self) -> bool:
        """Whether it reads labels."""
        return self.reads_labels

    @property
    def provable(self) -> bool:
        """Whether its rivals have linear margins, of which certificates can speak."""
        return True

    @property
    def reads(self) -> "tuple[Observation, ...]":
        """Observations that must be made before it can be bound."""
        return ()

    @property
    def has_pictures(self) -> bool:
        """Whether pictures of images that fail are worth a place: not where it only says how sure another one is."""
        return True

    @property
    @abstractmethod
    def title(self) -> str:
        """What happens, in a few words, for example "misclassified"."""

    @property
    def clause(self) -> str:
        """What happens, as the end of the sentence "half of the images …", such as "are misclassified"."""
        return f"fail ({self.title})"

    @property
    def definition(self) -> str:
        """What the clause means, in a sentence; "" where it says so itself."""
        return ""

    @abstractmethod
    def bind(self, shard: Shard) -> Event:
        """Return the event for the images of a shard.

        Raises:
            HoldfastError: labels or other images that are missing.
        """

    def rivals(self, shard: Shard, count: int | None = None) -> Rivals | None:
        """Return the ways in which the images of a shard can fail, so that each can be pursued, and all be excluded.

        Args:
            shard: the images.
            count: how many ways at most; None: all, so that an image fails exactly where one of the margins is below
                zero (or, where labels decide, at zero).

        Returns:
            None for a failure that is no choice among such ways, unless it says more.
        """
        return None

    def fails_at(self, shard: Shard) -> Positions:
        """Return an image of the population at which each image of a shard fails, itself where there is none, [B].

        Searches begin there. Of other failures than those `of_one_way` the rivals say so.

        Args:
            shard: the images.
        """
        return shard.positions

    def identify(self, shard: Shard, reps: Float[Tensor, "batch dim"]) -> Int[Tensor, "batch"] | None:
        """Return which image of the population the disturbed images of a shard are taken for, failing or not.

        Args:
            shard: the images.
            reps: representations of their disturbed versions.

        Returns:
            positions in the population, -1 for none; None for failures that are no such mistake, unless they say more.
        """
        return None


@dataclass(frozen=True)
class Search:
    """A search for the worst case that numbers rely on: were it too weak, they would be wrong on one side.

    The validity panel examines every search that some measure of the audit relies on, and no other.

    Attributes:
        attack: how it searches.
        ball: where, in pixels of a [0, 1] image.
        objective: what it maximises, or the failure that it seeks.
        smallest: whether it seeks the smallest change that makes an image fail; the ball's radius is then not read.
    """

    attack: Attack
    ball: Ball
    objective: Objective | Failure
    smallest: bool = False


class Observation(metaclass=Checked):
    """What a measure asks of an encoder; the only place where encoder passes happen. A frozen dataclass.

    Observations that `join` are run once and serve every measure that reads them.

    Attributes:
        title: what it observes, in a few words.
        reads_labels: whether it reads labels itself, whatever its fields are.
        scope: which images it sees.
        surrogate: the spec of another encoder, which it observes instead of the one under audit; "" for most. Encoders
            with the same input share what is seen of it.
    """

    reads_labels: ClassVar[bool] = False
    scope: ClassVar[Scope] = Scope.FIRST
    surrogate: str = ""

    @property
    def needs_labels(self) -> bool:
        """Whether it, or a part among its fields, reads labels."""
        return self.reads_labels or any(getattr(part, "needs_labels", False) for part in self._parts)

    @property
    def in_files(self) -> bool:
        """Whether what it sees may be too much for memory: it stays in files, and no measure reads it.

        Observations that read it get the rows of their own shard.
        """
        return self.scope is Scope.TRAINING

    @property
    def shows(self) -> Literal["", "gallery", "changes", "hubs", "impersonations", "noises", "perturbations"]:
        """Among what of the record its `pictures` are; empty where it leaves none.

        Of one "gallery" an audit has the pictures: that of the observation that costs the most passes.
        """
        return ""

    @property
    def sole_threat(self) -> Threat | None:
        """What befalls all images that it represents; None: nothing, or more than one threat."""
        return None

    @property
    def title(self) -> str:
        """What it observes, in a few words; the words of its name where it does not say."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(self).__name__).lower()

    @abstractmethod
    def key(self) -> "Observation":
        """Return itself without what does not change the encoder passes; equal keys share one run."""

    @abstractmethod
    def join(self, twin: "Observation") -> "Observation":
        """Return one observation that serves both, this one and another with the same key."""

    @abstractmethod
    def images(self, population: int, attacked: int) -> int:
        """Return how many images of its scope it covers; where these are synthetic, how many rows it makes.

        Args:
            population: images of the audit; of training images, how many there are.
            attacked: how many of them are attacked; of training images, all.
        """

    @property
    @abstractmethod
    def passes(self) -> Passes:
        """Encoder passes that one image costs."""

    @property
    def reevaluations(self) -> int:
        """How often one image that a search found is represented again, where searches see other values."""
        return 0

    @property
    def redraw_evaluations(self) -> int:
        """How often one image is represented by each further group of draws, where the encoder is a mean over draws."""
        return 0

    @property
    def adaptive(self) -> bool:
        """Whether it may end before it has made all its `passes`, which are then the most or an estimate."""
        return False

    def passes_at(self, precision: str, draws: int | None = None) -> Passes:
        """Return the encoder passes that one image costs.

        Args:
            precision: of searches, see `Encoder.prepare`.
            draws: of the encoder, see `Encoder`.
        """
        # Once more in float32 or by its own draws, and once by each further group of draws
        again = self.reevaluations if precision != "float32" or draws is not None else 0
        again += 0 if draws is None else GROUPS * self.redraw_evaluations
        return (self.passes + Passes(forward=again)).of_draws(draws)

    def passes_of(self, encoder: Encoder) -> Passes:
        """Return the passes of an encoder that one image costs."""
        return self.passes_at(encoder.precision, encoder.draws)

    @property
    def reads(self) -> "tuple[Observation, ...]":
        """Other observations that must be made before, beside those among its fields."""
        return ()

    def prerequisites(self) -> "tuple[Observation, ...]":
        """Return all observations that must be made before: those that it, or its failure, reads, and its fields'."""
        judged = (read for part in self._parts if isinstance(part, Failure) for read in part.reads)
        return (*self.reads, *judged, *(part for part in self._parts if isinstance(part, Observation)))

    @property
    def _parts(self) -> tuple[object, ...]:
        """What its fields are, and each of several."""
        values = [getattr(self, field.name) for field in fields(cast(Any, self))]
        return tuple(part for value in values for part in (value if isinstance(value, tuple) else (value,)))

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches that it makes. One that searches by itself is expected to name an attack that does alike."""
        return ()

    def collect_points(self, ball: Ball, results: Mapping[str, Tensor]) -> Float[Tensor, "images points dim"] | None:
        """Return representations of disturbed images that it met inside a ball; None where it keeps none.

        Whatever a search pursued, what it met counts for every failure in that ball.

        Args:
            ball: the ball, around each image.
            results: what it saw, one row for each image.

        Returns:
            [M, T, D] in float32; NaN stands for images that lie outside.
        """
        return None

    def broke(self, failure: Failure, ball: Ball, results: Mapping[str, Tensor]) -> Bool[Tensor, "images"] | None:
        """Return which images it saw failing inside a ball where it kept no representations; None where it saw none.

        Args:
            failure: what counts as a failure.
            ball: the ball, around each image.
            results: what it saw, one row for each image.
        """
        return None

    def charts(self, results: Mapping[str, Tensor], clean: Float[Tensor, "population dim"]) -> tuple[Chart, ...]:
        """Return what the report draws of it; nothing, unless it says so.

        Args:
            results: what it saw, one row for each image.
            clean: clean representations of the population.
        """
        return ()

    def pictures(self, results: Mapping[str, Tensor], album: Album) -> Entries:
        """Leave pictures and tables of what it saw, and return what the record says of them; `shows` tells where.

        Args:
            results: what it saw, one row for each image.
            album: the images, and where files go.
        """
        return []

    @abstractmethod
    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Observe one shard: named tensors whose first dimension is the image.

        Tensors named "gallery.…" hold only some images, worth a picture, with "gallery.position" saying which.
        """


class Reader(metaclass=Checked):
    """What reads observations: a measure or a check; a frozen dataclass."""

    @property
    def title(self) -> str:
        """What people call it: the words of its name, where it does not say."""
        return registry.part_name(self).replace("_", " ").capitalize()

    @property
    def label(self) -> str:
        """What it is called among the parts of a plan, but for what tells it from its twins: its name, for most."""
        return registry.part_name(self)

    @abstractmethod
    def observations(self) -> tuple[Observation, ...]:
        """Return what must be observed first."""

    def prerequisites(self) -> tuple[Observation, ...]:
        """Return all that must be observed first: what its probes need that learn through the encoder, then its own.

        Such a probe learns from training images as they are observed here: disturbed where they are read disturbed.
        """
        own = self.observations()
        # Where nothing reads training images, the probe learns from them as they are
        threats = dict.fromkeys(reader.sole_threat for reader in own if reader.scope is Scope.TRAINING) or {None: None}
        learning = [learning_of(probe, threat) for probe in _probes(self) if probe.through for threat in threats]
        # What a probe reads, then the probe, then what reads it; each once
        before = (observation for head in learning for observation in (*head.reads, head))
        # A failure is no observation, so measures that take any failure cannot name what it reads
        judged = (part for reader in own for part in reader._parts if isinstance(part, Failure))
        return tuple(dict.fromkeys((*before, *(read for failure in judged for read in failure.reads), *own)))


def learning_of(probe: Probe, threat: Threat | None = None) -> Observation:
    """Return the observation in which a probe learns through the encoder, see `Probe.through`."""
    return registry.find("observations", probe.through)(probe=probe, threat=threat)


def _probes(part: object) -> Iterator[Probe]:
    """Yield all probes among the parameters of a part, and of these."""
    if isinstance(part, Probe):
        yield part
    # Probes may stand in lists, and in parts of parts
    inner = part if isinstance(part, tuple) else ()
    if is_dataclass(part):
        inner = [getattr(part, field.name) for field in fields(part)]
    for member in inner:
        yield from _probes(member)
