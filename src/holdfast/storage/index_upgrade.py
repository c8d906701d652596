"""`index.json`, typed: a new encoder instead of the one behind an index, made by `holdfast compare-index`.

The gate has the first part of it, `IndexUpgrade`, for a run instead of its baseline.
"""

from typing import Generic, Literal, TypeVar

from holdfast.numerics.statistics.score import Score
from holdfast.storage.entry import Count, Entry, Number, PassesEntry
from holdfast.storage.finding import Finding
from holdfast.storage.record import Environment, GeometryEntry, Software

SCHEMA = 3
"""Version of the record's layout."""

Closeness = Literal["together", "apart"]
"""On which side of a threshold two images lie, or belong."""

Outcome = Literal["broken", "wrong before and after", "mended", "holds"]
"""What may become of a canary, worst first: right before and wrong after, wrong twice, the other way round, right."""

DISTURBED = "cosine_disturbed"
"""The measure of disturbed images."""

DISAGREEMENT, BREAKING, PARTED = "disagreement_radius", "breaking_radius", "cosine_attacked"
"""The measures of attacked images: where both disagree, where each breaks, how far vectors part."""

AGREEMENT, PROVED = "agreement_radius", "cosine_proved"
"""The measures of what is proved: up to which change both agree, how alike their vectors stay."""

NOT_PROVED = "nothing proved"
"""The share of images for which there is no proof."""

ALREADY, NOISE, LEVELS, HELD = "as they are", "noise of that size", "whole grey levels", "holds at 1/255"
"""Scores of the first, beside its median: shares of images. Of how far vectors part, what it is without an attack."""

Kind = TypeVar("Kind", covariant=True)


class Both(Entry, Generic[Kind], frozen=True, kw_only=True):
    """The same of both encoders: of the one behind the index, and of the one that is to replace it."""

    old: Kind
    new: Kind


class IndexMeasure(Entry, frozen=True, kw_only=True):
    """What is measured of both encoders together.

    Attributes:
        title: what people call it.
        unit: of its scores.
        better: which direction is better; "" where none is.
        how_to_read: what its numbers mean.
        headline: the name of the score that stands for it.
        scores: by name: "mean"; or "old" and "new" of each encoder, their "change", and "kept", of the new encoder
            with the old threshold.
    """

    title: str
    unit: str
    better: Literal["lower", "higher", ""]
    how_to_read: str
    headline: str
    scores: dict[str, Score]


class TranslatedThreshold(Entry, frozen=True, kw_only=True):
    """A threshold of the old encoder, its rate of false positives, and the new encoder's at that rate; see `Score`."""

    rate: Number
    old: Number
    new: Number | None
    low: Number | None
    high: Number | None


class Sides(Both[Closeness], frozen=True, kw_only=True):
    """On which side of its threshold a pair lies, by each encoder; `kept`: by the new one with the old threshold."""

    kept: Closeness


class JudgedCanary(Entry, frozen=True, kw_only=True):
    """A pair of images that must match, or must not, and what became of it.

    Attributes:
        first: the id of an image.
        second: of the other one.
        expected: the side on which they belong.
        distances: how far they are apart.
        sides: where they lie.
        outcome: what became of it.
        near: whether it lies on the other side at an end of the interval of the new threshold.
    """

    first: str
    second: str
    expected: Closeness
    distances: Both[Number]
    sides: Sides
    outcome: Outcome
    near: bool

    @property
    def is_broken(self) -> bool:
        """Whether it was right with the old encoder and is wrong with the new one."""
        return self.outcome == "broken"


class NamedEncoder(Entry, frozen=True, kw_only=True):
    """An encoder by its name."""

    name: str


class PairedImages(Entry, frozen=True, kw_only=True):
    """How many images there are, of how many of them pairs are compared, and how many pairs of different ones."""

    images: Count
    paired: Count
    pairs: Count


class IndexUpgrade(Entry, frozen=True, kw_only=True):
    """What changes where a new encoder takes the place of an old one.

    Attributes:
        encoders: the old and the new one.
        data: on how many images.
        distance: by what images are near each other, "cosine distance".
        larger_is_nearer: whether those are nearer that have more of it, as of an inner product.
        measures: by name.
        threshold: why there is no threshold; "" where there is one.
        translation: thresholds of both at the same rates of false positives, the smallest first.
        canaries: what became of each, broken ones first.
        noun: what is compared, "image" or, of stored vectors, "item".
    """

    encoders: Both[NamedEncoder]
    data: PairedImages
    distance: str
    larger_is_nearer: bool
    measures: dict[str, IndexMeasure]
    threshold: str
    translation: list[TranslatedThreshold]
    canaries: list[JudgedCanary]
    noun: str = "image"


class IndexPlanEntry(Entry, frozen=True, kw_only=True):
    """What was asked, by the options of the command.

    Attributes:
        old: spec, or name, of the encoder behind the index.
        new: of the one that is to replace it.
        data: images of the index.
        images: how many of them; None: all.
        k: how many neighbours are looked at.
        divergence: how representations are compared.
        rate: false positives of the old threshold; None: the usual one, unless a threshold is given.
        threshold: the old threshold; None: the one of the rate.
        canaries: the file of canaries; None: there are none.
        edits: whether edited copies are searched and matched as well.
        same: whether both are builds of one network.
        seed: which of the images.
        device: where the encoders run.
        batch_size: images per encoder pass; None: by their size.
        skip_corrupt: whether files that cannot be read are left out.
        queries: how many stored vectors have their lists compared; None: as many as take about a minute.
        attacked: how many images are attacked.
        proved: for how many images it is proved how alike both stay.
        require: what the new encoder must hold.
    """

    old: str
    new: str
    data: str
    images: Count | None
    k: list[Count]
    divergence: str
    rate: Number | None
    threshold: Number | None
    canaries: str | None
    edits: bool
    same: bool
    seed: int
    device: str
    batch_size: Count | None
    skip_corrupt: bool
    queries: Count | None = None
    attacked: int = 0
    proved: int = 0
    require: list[str]


class IndexPasses(Entry, frozen=True, kw_only=True):
    """The passes of an encoder: predicted, and made; fewer where representations were stored."""

    predicted: PassesEntry
    made: PassesEntry


class IndexEncoder(NamedEncoder, frozen=True, kw_only=True):
    """An encoder of an index, as records have them.

    Attributes:
        slug: its name in files; "", for no file is called by it.
        fingerprint: of its weights.
        parameters: how many there are.
        mean: by which pixels are normalised.
        std: the same.
        origin: where it comes from.
        geometry: how pictures are rendered for it; None where images have its size.
        error: None, for both could be compared.
        input: (channels, height, width) of its images.
        dim: of its representations.
        identity: of code, weights and rendering: what representations are stored under.
        passes: what it cost.
    """

    slug: str = ""
    fingerprint: str | None
    parameters: Count | None
    mean: list[Number]
    std: list[Number]
    origin: dict[str, str]
    geometry: GeometryEntry | None
    error: str | None = None
    input: list[Count]
    dim: Count
    identity: str
    passes: IndexPasses


class IndexImages(PairedImages, frozen=True, kw_only=True):
    """The images of the index.

    Attributes:
        spec: where they come from.
        description: the same in words.
        available: how many the source has.
        fingerprint: of all their pixels, in their order.
        skipped: (image, why) of those that could not be read.
    """

    spec: str
    description: str
    available: Count
    fingerprint: str
    skipped: list[tuple[str, str]]


class PicturedImage(Entry, frozen=True, kw_only=True):
    """An image: its id, and the file with its picture; "" of what has none."""

    id: str
    picture: str


class ChangedImage(PicturedImage, frozen=True, kw_only=True):
    """An image whose neighbours changed.

    Attributes:
        kept: its rank-biased overlap.
        k: of how many neighbours it is told how many stay.
        stay: how many do.
        before: the nearest with the old encoder, nearest first.
        after: with the new one.
    """

    kept: Number
    k: Count
    stay: Count
    before: list[PicturedImage]
    after: list[PicturedImage]


class Cause(Entry, frozen=True, kw_only=True):
    """One thing that makes the vectors of two builds of one network differ.

    Attributes:
        kind: "images", something that is done to pictures on one side: where it is done on the other side, too, vectors
            agree; "vectors", something that those of one side show; "arithmetic", in which numbers one computes.
        side: of images, the encoder on whose side it was done to try it; else the one that it is said of.
        name: a clause about pictures, such as "red and blue are swapped", or about one side's vectors: "are codes".
        cosine: median cosine where it is made up for, of images that did not serve to find it; None: nothing was tried.
        before: the same of the same images as they are.
    """

    kind: Literal["images", "vectors", "arithmetic"]
    side: Literal["old", "new"]
    name: str
    cosine: Score | None = None
    before: Score | None = None


class Diagnosis(Entry, frozen=True, kw_only=True):
    """What makes two builds of one network differ.

    Attributes:
        causes: what was found.
        tried: what was done to pictures to find it, as clauses.
        why: why nothing was done to pictures; "" where something was.
        passes: encoder passes that it took, beside those of the comparison.
    """

    causes: list[Cause]
    tried: list[str]
    why: str
    passes: Both[Count]


class Attacked(Entry, frozen=True, kw_only=True):
    """How changes on which both disagree were searched.

    Attributes:
        images: how many were attacked, the first ones.
        gradients: whose gradients led: "both", "old", "new", or "neither", where both were only asked.
        passes: of both, beside those of the comparison.
    """

    images: Count
    gradients: Literal["both", "old", "new", "neither"]
    passes: Both[IndexPasses]


class Proved(Entry, frozen=True, kw_only=True):
    """What was to be proved of both encoders.

    Attributes:
        images: of how many, the first ones.
        passes: of both, in propagations of bounds.
    """

    images: Count
    passes: IndexPasses


class IndexRecord(IndexUpgrade, frozen=True, kw_only=True):
    """What `index.json` holds, beside what changes.

    Attributes:
        encoders: the same, with who they are and what they cost.
        data: which images.
        schema: see `SCHEMA`.
        holdfast: what wrote it.
        command: asks the same again; "" where none can.
        plan: what was asked.
        changed: the images whose neighbours changed most, those first that keep least; with pictures.
        diagnosis: what makes two builds of one network differ; None where nobody asked.
        attacked: how both were attacked; None where nobody asked.
        proved: what was to be proved of both; None where nobody asked.
        table: the file with a row for each image.
        environment: what computed it.
        finished: when, by the clock of that machine: ISO 8601, in UTC.
        findings: whether each requirement is met.
        passed: whether all are, and no canary is broken.
        status: the exit status.
        notes: what should be known of stored vectors, and why nothing could be proved.
    """

    encoders: Both[IndexEncoder]
    data: IndexImages
    schema: int
    holdfast: Software
    command: str
    plan: IndexPlanEntry
    changed: list[ChangedImage]
    diagnosis: Diagnosis | None
    table: str
    environment: Environment
    finished: str
    findings: list[Finding]
    passed: bool
    status: Count
    notes: list[str] = []
    attacked: Attacked | None = None
    proved: Proved | None = None
