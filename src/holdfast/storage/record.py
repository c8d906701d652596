"""The record, typed: what is in `record.json`, declared once, for whoever writes, reads, shows or compares it.

Entries that are not named here are let through unread: a later version may add to a record. What is named must fit.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.numerics.statistics.score import Score
from holdfast.storage.chart import AnyChart
from holdfast.storage.entry import Count, Entry, Number, PassesEntry, Spec, check_spec
from holdfast.storage.hardening import Hardening
from holdfast.storage.pictured import (
    AttentionEntry,
    Broken,
    Extremes,
    HubEntry,
    Impersonation,
    Moved,
    NoiseEntry,
    Perturbation,
)

SCHEMA = 2
"""Version of the record's layout; records of another one are refused."""


class Spent(Entry, frozen=True, kw_only=True):
    """What an encoder cost, in encoder passes.

    Attributes:
        forward: passes that were made forward.
        backward: passes that were made backward.
        bounds: bound propagations.
        predicted: what was predicted before the first of them.
        measures: what the measures took of it; the rest went into checks.
        alone: what the measures had cost, had they shared nothing.
        shared_fraction: which share of that was saved.
    """

    forward: Count
    backward: Count
    alone: PassesEntry
    shared_fraction: Number
    bounds: Count = 0
    predicted: PassesEntry
    measures: PassesEntry


class InWordsEntry(Entry, frozen=True, kw_only=True):
    """What a measure answers, in words that begin a report; see `holdfast.core.InWords`."""

    says: str
    further: list[str]
    definition: str = ""
    is_number: bool = False


class MeasureEntry(Entry, frozen=True, kw_only=True):
    """What a measure asks of an encoder, and its answer.

    Attributes:
        title: what people call it.
        better: which direction of its scores is more robust.
        unit: of its scores, unless a score says another.
        part: the measure as plans name it.
        scores: by name; empty where it failed.
        headline: the name of the score that stands for it.
        table: the Parquet file with a row for each image.
        passes_alone: what it had cost, had it shared nothing.
        seconds: that scoring took.
        question: what it asks, in a sentence.
        how_to_read: what its numbers mean.
        reference: where it was published.
        needs_labels: whether it reads labels.
        corruptions: titles of the corruptions that it looks at.
        family: the heading under which reports list it.
        left_out: entries of its lists that did not fit, and why.
        gloss: the headline in plain words; "" where the title is as plain.
        levels: whether its sizes are told as n/255.
        in_words: its answer in words.
        in_brief: whether reports begin with it.
        charts: what is drawn of it.
        column: of its table, by which it judges an image.
        error: why it failed.
        error_code: the kind of that error.
        not_certified: why nothing can be proved, which is no fault.
    """

    title: str
    better: Literal["lower", "higher"]
    unit: str
    part: Spec
    scores: dict[str, Score] = {}
    headline: str | None = None
    table: str | None = None
    passes_alone: PassesEntry | None = None
    seconds: Number = 0.0
    question: str = ""
    how_to_read: str = ""
    reference: str = ""
    needs_labels: bool = False
    corruptions: list[str] = []
    family: str = ""
    left_out: dict[str, str] = {}
    gloss: str = ""
    levels: bool = False
    in_words: InWordsEntry | None = None
    in_brief: bool = False
    charts: list[AnyChart] = []
    column: str | None = None
    error: str | None = None
    error_code: str | None = None
    not_certified: str | None = None

    def __post_init__(self) -> None:
        check_spec(self.part)
        failed = self.error or self.not_certified
        if self.headline is not None and self.headline not in self.scores and not failed:
            raise ValueError(f"the headline {self.headline!r} is none of its scores")
        if unsaid := next((name for name, score in self.scores.items() if score.if_weak is None), None):
            raise ValueError(f"scores.{unsaid}.if_weak is missing")
        if self.headline is None and not failed:
            raise ValueError("it has neither a headline nor a reason why not")

    @property
    def part_name(self) -> str:
        """What plans call it, without its parameters."""
        return self.part["name"]

    @property
    def failure(self) -> str:
        """Why it has no score; "" where it has."""
        return self.error or self.not_certified or ""

    @property
    def headline_score(self) -> Score | None:
        """The score that stands for it; None where there is none."""
        return self.scores.get(self.headline) if self.headline is not None else None


class CheckEntry(Entry, frozen=True, kw_only=True):
    """What a check found, and what it means for the scores that depend on it.

    Attributes:
        title: what people call it.
        status: whether the numbers can be trusted; "skip": it could not be made.
        finding: what was found.
        meaning: what that means.
        consequence: what a failure leaves of the scores that depend on it.
        details: numbers behind it.
        passes: encoder passes that it made by itself.
        called: what the encoder is called where it fails, such as "Collapsed"; "" for most.
        doubt: what it casts on numbers where it does not pass, in a few words.
    """

    title: str
    status: Literal["pass", "warn", "fail", "skip"]
    finding: str
    meaning: str
    consequence: Literal["void", "one side", "no winner", "caution"]
    details: dict[str, Any]
    passes: PassesEntry | None = None
    called: str = ""
    doubt: str = ""


class ObservationEntry(Entry, frozen=True, kw_only=True):
    """Encoder passes that were made together.

    Attributes:
        title: what people call it.
        part: the observation as plans name it.
        passes: what it cost.
        predicted: what was predicted.
        serves: names of the measures and checks that read it.
        seconds: that it took.
        charts: what is drawn of it.
        shards: the folder of its shards.
    """

    title: str
    part: Spec
    passes: PassesEntry
    predicted: PassesEntry
    serves: list[str]
    seconds: Number
    charts: list[AnyChart] = []
    shards: str = ""

    def __post_init__(self) -> None:
        check_spec(self.part)


class GeometryEntry(Entry, frozen=True, kw_only=True):
    """How pictures are rendered for an encoder; `assumed`: in words, where it was guessed."""

    size: list[Count]
    channels: Count
    resize: Count | list[Count] | None
    interpolation: str
    source: str
    longest: Count | None = None
    rounding: str = ""
    resampler: str = ""
    assumed: str = ""


NEEDED = ("fingerprint", "parameters", "input", "dim", "passes")
"""What an encoder has that could be audited."""

WRITTEN = ("measures", "checks", "observations", "origin", "mean", "std", "geometry")
"""What is written of an encoder that could be audited, though it may be empty; of others the first two are."""


class EncoderEntry(Entry, frozen=True, kw_only=True):
    """An encoder and all that was found of it; or, with an `error`, one that could not be audited.

    Attributes:
        name: what it is called, apart from all others of the record.
        measures: by name.
        checks: by name.
        error: why it could not be audited.
        error_code: the kind of that error.
        slug: its name in files.
        fingerprint: of its weights.
        origin: where it comes from.
        parameters: how many there are.
        mean: by which pixels are normalised.
        std: the same.
        geometry: how pictures are rendered for it; None where images have its size.
        input: (channels, height, width) of its images.
        dim: of its representations.
        observations: the passes that were made.
        passes: all of them together.
        gallery: images that an attack moved far.
        changes: smallest changes that break an image.
        hubs: images that were changed to come first for everybody.
        impersonations: images of two classes that were moved towards each other.
        extremes: the images that are least and most robust.
        noises: noises that were learned against it.
        perturbations: perturbations that are the same for all images.
        attention: where it looks.
        batch_size: that fitted its device.
        identity: of code, weights and rendering: what shards are stored under.
        rendering: how many images had another size, in words.
    """

    name: str
    measures: dict[str, MeasureEntry] = {}
    checks: dict[str, CheckEntry] = {}
    error: str | None = None
    error_code: str | None = None
    slug: str = ""
    fingerprint: str | None = None
    origin: dict[str, Any] = {}
    parameters: Count | None = None
    mean: Any = None
    std: Any = None
    geometry: GeometryEntry | None = None
    input: list[Count] | None = None
    dim: Count | None = None
    observations: list[ObservationEntry] = []
    passes: Spent | None = None
    gallery: list[Moved] = []
    changes: list[Broken] = []
    hubs: list[HubEntry] = []
    impersonations: list[Impersonation] = []
    extremes: Extremes = Extremes()
    noises: list[NoiseEntry] = []
    perturbations: list[Perturbation] = []
    attention: AttentionEntry = AttentionEntry()
    batch_size: Count | None = None
    identity: str | None = None
    rendering: str | None = None


class PairEntry(Entry, frozen=True, kw_only=True):
    """Two encoders, and by how much a score of them differs.

    Attributes:
        first: one of them.
        second: the other.
        difference: the first minus the second, with its paired interval.
        winner: who is better, after correction for all pairs and measures of the audit; None where that is open.
    """

    first: str
    second: str
    difference: Score
    winner: str | None = None


class ContrastEntry(Entry, frozen=True, kw_only=True):
    """Two encoders, drawn beside each other."""

    first: str
    second: str
    chart: AnyChart


class Compared(Entry, frozen=True, kw_only=True):
    """How the encoders compare by a measure."""

    best: str | None
    pairs: list[PairEntry]
    charts: list[ContrastEntry] = []


class RelationEntry(Entry, frozen=True, kw_only=True):
    """How two measures go together, over encoders or over corruptions of one."""

    over: Literal["encoders", "corruptions"]
    encoder: str | None
    first: str
    second: str
    points: Count
    pearson: Score
    spearman: Score


class FluctuationEntry(Entry, frozen=True, kw_only=True):
    """By how much a measure fluctuates from one encoder of a series to the next; `problem`: why that is not known."""

    problem: str | None = None
    mean: Score | None = None
    noise: Number | None = None
    classes: dict[str, Number | None] | None = None

    def __post_init__(self) -> None:
        if self.problem is None and (self.mean is None or self.classes is None):
            raise ValueError("mean, noise or classes is missing")


class SeriesEntry(Entry, frozen=True, kw_only=True):
    """Encoders that follow one another, such as the checkpoints of a training."""

    name: str
    encoders: list[str]
    fluctuation: dict[str, FluctuationEntry] = {}


Ended = Literal["complete", "budget", "until", "calls", "interrupted"]
"""Why no further round of an audit was made."""


class Rounds(Entry, frozen=True, kw_only=True):
    """Which round of an audit the record is of, and how it ended.

    Attributes:
        number: of the round, from 1.
        of: how many images are to be attacked in the end.
        before: seconds of earlier commands.
        answers_only: whether only the measures were asked that answer in a sentence.
        look: see `auditing.plan.Round`.
        budget: as in the plan, seconds.
        until: as in the plan.
        ended: why no further round was made; None while another may be.
        needs: seconds that the same command takes to make a further round, about, where the budget ended this one.
    """

    number: Count
    of: Count
    before: Number
    answers_only: bool
    look: Count = 0
    budget: Number | None = None
    until: str | None = None
    ended: Ended | None = None
    needs: Number | None = None


class RunEntry(Entry, frozen=True, kw_only=True):
    """When it ran, for how long, and on what.

    Attributes:
        started: when, in ISO 8601.
        finished: the same.
        seconds: that it took.
        resumed_shards: how many shards an earlier run had stored.
        remade_shards: how many of them were damaged, and were made again.
        engine: where encoders ran.
        workers_lost: how many processes died on the way.
        rounds: which round it is; None where it was made in one go.
    """

    started: str
    finished: str
    seconds: Number
    resumed_shards: Count
    remade_shards: Count = 0
    engine: str = ""
    workers_lost: Count = 0
    rounds: Rounds | None = None


class Software(Entry, frozen=True, kw_only=True):
    """The Holdfast that wrote the record, and files of parts of one's own."""

    version: str
    git: str | None
    parts: dict[str, str] = {}


class PlanEntry(Entry, frozen=True, kw_only=True):
    """What was asked; `command` asks it again."""

    seed: Count
    measures: list[Spec]
    command: str
    profile: str | None
    device: str
    batch_size: Count | None
    precision: str | None = None
    allow: list[str] = []
    shared_searches: bool = False
    compiled: bool = False
    images: Count | None = None
    attacked: Count | None = None
    data: str | None = None
    encoders: list[str] = []
    checks: list[Spec] = []
    series: list[dict[str, Any]] = []
    train: str | None = None
    train_images: Count | None = None
    skip_corrupt: bool = False
    skip_duplicates: bool = False

    def __post_init__(self) -> None:
        for number, part in enumerate(self.measures):
            check_spec(part)
            ball = part.get("ball", {"radius": 0.0})
            if not isinstance(ball, dict) or type(ball.get("radius")) not in (int, float):
                raise ValueError(f"measures[{number}].ball has no name and radius")


class Alike(Entry, frozen=True, kw_only=True):
    """An image that looks like another one, and by how many grey levels they differ."""

    image: str
    like: str
    levels: Count


class Train(Entry, frozen=True, kw_only=True):
    """The images that probes learn from; `left_out`: how many are images of the audit too."""

    images: Count = 0
    left_out: Count = 0
    fingerprint: str = ""
    labels: str = ""
    notes: list[str] = []
    spec: str | None = None


class DataEntry(Entry, frozen=True, kw_only=True):
    """The images.

    Attributes:
        fingerprint: of all their pixels, in their order.
        images: how many there are in the audit.
        attacked: how many of these, the first ones, are attacked.
        spec: where they come from.
        description: the same in words.
        available: how many the source has.
        skipped: (image, why) of those that could not be read.
        balls: the threats on them, in words.
        table: the file that lists them.
        synthetic: whether they were made by a formula.
        labels: the fingerprint of their labels; None where none was read.
        runs_left_out: folders of audits among the images, which are none.
        duplicates: images that look like an earlier one.
        duplicates_left_out: whether these were left out.
        notes: what else is to be said of them.
        train: what probes learn from.
    """

    fingerprint: str
    images: Count
    attacked: Count
    spec: str
    description: str
    available: Count
    skipped: list[Annotated[list[str], Meta(min_length=2, max_length=2)]]
    balls: list[str]
    table: str
    synthetic: bool = False
    labels: str | None = None
    runs_left_out: Count = 0
    duplicates: list[Alike] = []
    duplicates_left_out: bool = False
    notes: list[str] = []
    train: Train | None = None


class Environment(Entry, frozen=True, kw_only=True):
    """Versions of what computed the numbers."""

    python: str
    torch: str
    platform: str
    packages: dict[str, str]


class Record(Entry, frozen=True, kw_only=True):
    """What an audit found.

    Attributes:
        schema: see `SCHEMA`.
        holdfast: what wrote it.
        plan: what was asked.
        data: of which images.
        encoders: what was found of each.
        comparison: how they compare, by measure.
        environment: what computed it.
        failures: a sentence for everything that failed.
        run: when it ran.
        relations: which measures go together.
        series: encoders that follow one another.
        hardening: what hardening changed, of an encoder that was hardened.
        files: the SHA-256 of every table and picture, by its name.
        seal: the SHA-256 of all other entries.
    """

    schema: int
    holdfast: Software
    plan: PlanEntry
    data: DataEntry
    encoders: list[EncoderEntry]
    comparison: dict[str, Compared]
    environment: Environment
    failures: list[str]
    run: RunEntry
    relations: list[RelationEntry] = []
    series: list[SeriesEntry] = []
    hardening: Hardening | None = None
    files: dict[str, str] = {}
    seal: str = ""

    def __post_init__(self) -> None:
        names = [encoder.name for encoder in self.encoders]
        titles = {key for encoder in self.encoders for key in encoder.measures}
        if not names:
            raise ValueError("encoders is empty")
        for encoder in self.encoders:
            if missing := [name for name in NEEDED if getattr(encoder, name) is None and not encoder.error]:
                raise ValueError(f"encoders: {missing[0]} of {encoder.name!r} is missing")
        if len(set(names)) < len(names):
            raise ValueError("encoders: two have one name")
        for key, compared in self.comparison.items():
            if not {contrast.first for contrast in compared.charts} <= set(names):
                raise ValueError(f"comparison.{key}: a chart is of an encoder that is not there")
        for relation in self.relations:
            if not {relation.first, relation.second} <= titles:
                raise ValueError("relations: one is of a measure that no encoder has")
        for series in self.series:
            if not set(series.encoders) <= set(names) or not set(series.fluctuation) <= titles:
                raise ValueError("series: one is of an encoder or a measure that is not there")


def check_written(record: Any) -> None:
    """Make sure that a record's file says itself what its types would fill in; left out, it would read as sound.

    Args:
        record: JSON data that fit the types.

    Raises:
        ValueError: something is missing; it says what.
    """
    for encoder in record["encoders"]:
        place = f"encoders: {encoder['name']!r}"
        _check_has(encoder, WRITTEN[:2] if encoder.get("error") else WRITTEN, place)
        attention = encoder.get("attention", {})
        if attention and not attention.get("problem"):
            _check_has(attention, AttentionEntry.__struct_fields__[1:], f"{place}, attention")
        for name, measure in encoder["measures"].items():
            _check_has(measure, ("scores", "headline", "table", "passes_alone", "seconds"), f"{place}, {name}")
            for title, score in measure["scores"].items():
                _check_has(score, ("checks", "standing", "because"), f"{place}, {name}, {title}")


def _check_has(entry: Any, names: Iterable[str], place: str) -> None:
    if missing := [name for name in names if name not in entry]:
        raise ValueError(f"{place}: {missing[0]} is missing")
