"""The plan of an audit: which encoders, images, measures, checks and observations; known before any encoder runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from holdfast.auditing.series import Series
from holdfast.auditing.until import Until
from holdfast.core import Check, Examination, Measure, Observation, Passes, Scope, Search, Threat, registry
from holdfast.core.naming import name_parts, titles
from holdfast.core.precision import check_precision
from holdfast.runtime.checked import Checked
from holdfast.runtime.errors import BadValue, Conflict, Missing, UnknownName, unknown
from holdfast.storage.standing import check_allowed

CLEAN: Observation = registry.part("observations", "clean")
"""Representations of all images as they are: what other observations know as `Shard.clean`."""


def training(threat: Threat | None = None) -> Observation:
    """Return the observation of the training images, disturbed by a threat or as they are."""
    return registry.find("observations", "training")(threat)


@dataclass(frozen=True)
class Round:
    """A round of an audit in rounds.

    Attributes:
        end: how many images are attacked by its end.
        look: how many rounds so far could have been the last one because of what they found; 0 where the clock, or a
            number of images, decides. Intervals then hold at all of them, see `statistics.looks`.
    """

    end: int
    look: int = 0


@dataclass(frozen=True)
class Plan(metaclass=Checked):
    """Everything that decides an audit's numbers, and how it is run.

    Attributes:
        encoders: encoder specs, see `holdfast.sources.encoders`.
        data: data spec, see `holdfast.sources.data`.
        train: data spec of the labelled images that probes learn from; None: the images that are not attacked.
        train_images: how many of them; None: all.
        spare: attack at most half of the images, so that probes have others to learn from.
        measures: the questions.
        checks: the validity panel.
        images: size of the population, the images that are compared with each other; None: all.
        attacked: how many of them, the first ones, are attacked; an even number; None: all, rounded down.
        seed: the one seed of the run.
        batch_size: images per encoder pass, and the unit in which a killed audit resumes; None: by the image's size,
            see `batch_size_for`.
        device: where the encoder runs, as torch names it.
        skip_corrupt: leave out files that cannot be read, instead of stopping.
        skip_duplicates: leave out images that look like others of the population.
        profile: name of the profile that the measures come from, for the record.
        series: which of the encoders are checkpoints of one training, in order.
        precision: of searches, float32, tf32, bf16 or fp16; what is read out is float32, see `Encoder.prepare`.
        compiled: whether the forward pass runs through torch.compile.
        shared_searches: whether what any search met in a ball counts for every measure of that ball; else each measure
            knows its own searches alone, as the papers' tables do.
        allow: names of checks whose failure is accepted.
        budget: seconds after which an audit in rounds begins no further round; None: no limit.
        until: what else ends an audit in rounds. Audits with neither are made in one go.
        calls: how many calls encoders that are services may get, at most; None: no limit.
        round: which round of an audit in rounds this is; None: all of it at once.
    """

    encoders: tuple[str, ...]
    data: str
    measures: tuple[Measure, ...]
    checks: tuple[Check, ...] = ()
    images: int | None = None
    attacked: int | None = None
    seed: int = 0
    batch_size: int | None = None
    device: str = "cpu"
    skip_corrupt: bool = False
    skip_duplicates: bool = False
    profile: str = "custom"
    train: str | None = None
    train_images: int | None = None
    spare: bool = False
    series: tuple[Series, ...] = ()
    precision: str = "float32"
    compiled: bool = False
    shared_searches: bool = True
    allow: tuple[str, ...] = ()
    budget: float | None = None
    until: Until | None = None
    calls: int | None = None
    round: Round | None = None

    def __post_init__(self) -> None:
        # Numbers of images
        for name in ("images", "attacked", "train_images"):
            value = getattr(self, name)
            if value is not None and value < 2:
                raise BadValue(f"{name}: expected at least 2 (images are compared in pairs), got {value}")
        if self.attacked is not None and self.attacked % 2:
            raise BadValue(
                f"attacked: expected an even number, for images are attacked in pairs, got {self.attacked}; take "
                f"{self.attacked - 1} or {self.attacked + 1}"
            )
        if self.attacked is not None and self.images is not None and self.attacked > self.images:
            raise Conflict(
                f"attacked: expected at most the {self.images} images of the audit, got {self.attacked}; add --images "
                f"{self.attacked}, or attack fewer"
            )
        if self.train_images is not None and self.train is None:
            raise Missing("train_images: expected training images of which to take so many; give train as well")

        # How it is run, and what it names
        if self.budget is not None and not self.budget > 0:
            raise BadValue(f"budget: expected seconds above 0, got {self.budget:g}; give more, such as 2m or 1h")
        if self.calls is not None and self.calls < 1:
            raise BadValue(f"calls: expected at least 1, got {self.calls}")
        if self.until is not None and self.until.measure not in ("", *self.measures_by_name):
            raise unknown("measure of the audit in until", self.until.measure, self.measures_by_name)
        if self.batch_size is not None and self.batch_size < 1:
            raise BadValue(f"batch_size: expected at least 1, got {self.batch_size}")
        check_precision(self.precision, self.device)
        for series in self.series:
            if strange := [spec for spec in series.encoders if spec not in self.encoders]:
                raise UnknownName(f"series {series.name!r}: expected encoders of the plan, got {', '.join(strange)}")
        check_allowed(self.allow, registry.names("checks"))
        if not self.measures:
            raise Missing(f"the plan has no measures; choose from: {', '.join(registry.names('measures'))}")

    @property
    def in_rounds(self) -> bool:
        """Whether it is, or is one of, an audit in rounds."""
        return self.budget is not None or self.until is not None or self.round is not None

    @property
    def classes_apart(self) -> bool:
        """Whether training images may have other classes than the tested ones, for all measures that read labels."""
        readers = [measure for measure in self.measures if measure.needs_labels]
        return bool(readers) and all(measure.classes_apart for measure in readers)

    @cached_property
    def measures_by_name(self) -> dict[str, Measure]:
        """The measures by name, see `name_parts`."""
        return name_parts(self.measures)

    @cached_property
    def titles(self) -> dict[str, str]:
        """What people call each measure, by its name, see `core.naming.titles`."""
        return titles(self.measures_by_name)

    @cached_property
    def checks_by_name(self) -> dict[str, Check]:
        """The checks by name."""
        return name_parts(self.checks)

    @cached_property
    def observations(self) -> dict[Observation, tuple[str, ...]]:
        """What must be observed, each trajectory once, and the names of the measures and checks it serves.

        Training images come first, and before them what a probe that learns from them reads: what reads labels may need
        what a probe learned.
        """
        read_by = [(name, m.prerequisites()) for name, m in self.measures_by_name.items()]
        read_by += [(name, (training(),)) for name in self.find_label_readers() if self.train is not None]
        read_by += [(f"check {name}", c.prerequisites()) for name, c in self.checks_by_name.items()]
        merged = merge(read_by)
        first = {needed.key() for learned in merged if learned.scope.training for needed in learned.prerequisites()}
        return dict(sorted(merged.items(), key=lambda item: (item[0].key() not in first, not item[0].scope.training)))

    @cached_property
    def order(self) -> tuple[Observation, ...]:
        """The observations by number."""
        return tuple(self.observations)

    @cached_property
    def requirements(self) -> list[set[int]]:
        """For each observation, the numbers of those without which it cannot be made, see `requirements`."""
        return requirements(self.order)

    @cached_property
    def dependencies(self) -> list[set[int]]:
        """For each observation, the numbers of those that are tried before it, see `dependencies`."""
        return dependencies(self.order)

    @property
    def synthetic(self) -> bool:
        """Whether the measures read none of the images."""
        return unread(self.measures)

    def find_label_readers(self) -> tuple[str, ...]:
        """Return the names of the measures that read labels, or of which an observation does."""
        return tuple(
            name
            for name, measure in self.measures_by_name.items()
            if measure.needs_labels or any(observation.needs_labels for observation in measure.observations())
        )

    def find_relevance_readers(self) -> tuple[str, ...]:
        """Return the names of the measures that read which images are relevant to which."""
        return tuple(name for name, measure in self.measures_by_name.items() if measure.needs_relevance)

    def attacking(self, queries: int | None) -> "Plan":
        """Return the plan with `attacked` capped at the number of queries of a retrieval task."""
        if queries is None:
            return self
        return replace(self, attacked=min(self.attacked or queries, queries) // 2 * 2)

    def count_attacked(self, population: int) -> int:
        """Return how many of so many images are to be attacked: an even number, so that each has a partner."""
        most = population // 2 if self.spare else population
        return min(self.attacked or most, most) // 2 * 2

    def count_attacked_now(self, population: int) -> int:
        """Return how many of them are attacked by the end of this round; else all that are to be."""
        most = self.count_attacked(population)
        return most if self.round is None else min(self.round.end, most)

    def batch_size_of(self, shape: tuple[int, int, int]) -> int:
        """Return how many images of a shape an encoder passes at a time."""
        return self.batch_size or batch_size_for(shape, self.device)

    def split(self, population: int, train: int | None = None) -> "Split":
        """Return how so many images are divided; `train` is how many training images there are."""
        return Split(population, self.count_attacked_now(population), self.count_attacked(population), train)

    def predict(self, population: int, train: int | None = None, draws: int | None = None) -> Passes:
        """Return the encoder passes of all observations, for one encoder of so many draws."""
        return total_passes(self.observations, self.split(population, train), self.precision, draws)

    def predict_checks(self, population: int, draws: int | None = None) -> Passes:
        """Return about how many passes checks make beside those of their observations, for one encoder."""
        # each draw of a mean over several is a pass
        attacked = self.count_attacked_now(population)
        return sum((check.own_passes(population, attacked) for check in self.checks), Passes()).of_draws(draws)

    def predict_work(self, population: int, train: int | None = None, draws: int | None = None) -> int:
        """Return what all of that is worth in passes, see `Passes.work`: how long a progress bar is."""
        return self.predict(population, train, draws).work + self.predict_checks(population, draws).work


@dataclass(frozen=True)
class Split:
    """How the images of an audit are divided.

    Attributes:
        population: images of the audit.
        attacked: how many of them, the first ones, are attacked by now.
        reserved: how many of them are to be attacked in the end; nothing is learned from these.
        train: how many training images there are; None where probes learn from images that are not attacked.
    """

    population: int
    attacked: int
    reserved: int
    train: int | None = None

    def extent(self, observation: Observation) -> int:
        """Return how many images an observation sees."""
        if not observation.scope.training:
            attacked = self.reserved if observation.scope is Scope.LAST else self.attacked
            return observation.images(self.population, attacked)
        if self.train is None and observation == training():
            return 0  # they are among the clean representations
        learned_from = self.population - self.reserved if self.train is None else self.train
        return observation.images(learned_from, learned_from)


def total_passes(
    observations: Iterable[Observation], split: Split, precision: str = "float32", draws: int | None = None
) -> Passes:
    """Return the encoder passes of some observations on divided images; see `Observation.passes_at`."""
    return sum((o.passes_at(precision, draws) * split.extent(o) for o in observations), Passes())


def unread(measures: Iterable[Measure]) -> bool:
    """Whether some measures read none of an audit's images, but synthetic ones alone."""
    return all(o.scope is Scope.SYNTHETIC for measure in measures for o in measure.prerequisites())


def requirements(order: Sequence[Observation]) -> list[set[int]]:
    """Return for each observation the numbers of those without which it cannot be made.

    All but the clean representations themselves and rows of training images need the former; and an observation may
    name others that it reads, or hold them as parameters.
    """
    number = {observation.key(): i for i, observation in enumerate(order)}
    direct: list[set[int]] = []
    for observation in order:
        direct.append({number[read.key()] for read in observation.prerequisites() if read.key() in number})
        if observation != CLEAN and observation.scope is not Scope.TRAINING:
            direct[-1] |= {j for j, clean in enumerate(order) if clean == CLEAN}
    return _closure(direct)


def dependencies(order: Sequence[Observation]) -> list[set[int]]:
    """Return for each observation the numbers of those that are made, or fail, before one of its shards is made.

    Beside its `requirements`, what reads labels may need what a probe learned from training images.
    """
    training = {j for j, o in enumerate(order) if o.scope.training}
    learned = (training if o.needs_labels and not o.scope.training else set() for o in order)
    return _closure([needed | probes for needed, probes in zip(requirements(order), learned, strict=True)])


def _closure(direct: Sequence[set[int]]) -> list[set[int]]:
    """Return what each needs, what that needs, and so on."""
    needed = [numbers - {i} for i, numbers in enumerate(direct)]
    for i in range(len(needed)):
        while further := set().union(*(needed[j] for j in needed[i])) - needed[i] - {i}:
            needed[i] |= further
    return needed


def merge(read_by: Iterable[tuple[str, Iterable[Observation]]]) -> dict[Observation, tuple[str, ...]]:
    """Return the union of observations, those with one key joined, each with the names of its readers."""
    joined: dict[Observation, Observation] = {}
    readers: dict[Observation, list[str]] = {}
    for name, observations in read_by:
        for observation in observations:
            key = observation.key()
            joined[key] = joined[key].join(observation) if key in joined else observation
            readers.setdefault(key, []).append(name)
    return {observation: tuple(dict.fromkeys(readers[key])) for key, observation in joined.items()}


def batch_size_for(shape: tuple[int, int, int], device: str) -> int:
    """Return a batch size that keeps an encoder busy without losing much to a kill: a power of two, 8 to 1,024.

    About 2^18 pixel values per pass on a CPU (512 digits, 64 CIFAR images, 8 at 224 x 224), 2^24 on an accelerator;
    where that is too much for the device's memory, passes are halved.
    """
    values = 2**18 if device == "cpu" else 2**24
    most = 512 if device == "cpu" else 1024
    fits = max(1, values // math.prod(shape))
    return max(8, min(most, 2 ** (fits.bit_length() - 1)))


def validity_panel(
    measures: Iterable[Measure], examined: int, queries: int, precision: str = "float32"
) -> tuple[Check, ...]:
    """Return the checks that belong to some measures: of each kind those that it says belong to them.

    Where no measure reads the audit's images, what could be wrong with these is not examined.
    """
    audit = Examination(tuple(measures), examined, queries, precision)
    position: dict[Search | None, int] = {search: number for number, search in enumerate(audit.searches)}
    kinds = [registry.find("checks", name) for name in registry.names("checks")]
    checks = [check for kind in kinds for check in kind.checks_for(audit)]
    return tuple(sorted(checks, key=lambda check: (check.place // 10, position.get(check.search, -1), check.place)))


SIMPLE = (
    "images", "attacked", "data", "seed", "batch_size", "device", "skip_corrupt", "skip_duplicates", "profile", "train",
    "train_images", "precision", "compiled", "shared_searches",
)  # fmt: skip
"""Fields of a plan that stand in its entry as they are."""


def plan_entry(plan: Plan, images: int, attacked: int) -> dict[str, Any]:
    """Return the plan as JSON data, with the numbers of images as they turned out."""
    return {name: getattr(plan, name) for name in SIMPLE} | {
        "images": images,
        "attacked": attacked,
        "encoders": list(plan.encoders),
        "measures": [registry.spec(measure) for measure in plan.measures],
        "checks": [registry.spec(check) for check in plan.checks],
        "series": [asdict(series) for series in plan.series],
        "allow": list(plan.allow),
    }


def plan_of(entry: Mapping[str, Any]) -> Plan:
    """Return the plan that a record, or a run folder, tells of; see `plan_entry`."""
    return Plan(
        encoders=tuple(entry["encoders"]),
        measures=registry.build(entry["measures"]),
        checks=registry.build(entry["checks"]),
        series=tuple(Series(series["name"], tuple(series["encoders"])) for series in entry["series"]),
        allow=tuple(entry["allow"]),
        **{name: entry[name] for name in SIMPLE},
    )
