"""`harden.json`, typed: what came of a hardening, made by `holdfast harden`, shown by reports, written as JSON."""

from typing import Literal

from msgspec import field

from holdfast.numerics.statistics.score import Score
from holdfast.storage.coarseness import Comparison
from holdfast.storage.entry import Count, Entry, Number, Spec


class Change(Entry, frozen=True, kw_only=True):
    """A measure before and after hardening."""

    measure: str
    title: str
    unit: str
    needs_labels: bool
    before: Score | None
    after: Score | None
    difference: Score | None


class Price(Entry, frozen=True, kw_only=True):
    """How far hardening moved representations of images as they are."""

    cosine: Score
    relative_l2: Score


class LookAtHardening(Entry, frozen=True, kw_only=True):
    """What was seen of the encoder at a step, on images held out for this: how far half of them may move, in pixels.

    None: no change was found that breaks half, as in the norm of patches, or of an encoder that tells none apart.
    `cosine`: of clean representations and those from before, the mean.
    """

    step: Count
    radius: Number | None
    low: Number | None
    high: Number | None
    cosine: Number


class Hardening(Entry, frozen=True, kw_only=True):
    """What hardening changed, and what it took."""

    steps: Count
    kept: Count
    looks: list[LookAtHardening]
    comparisons: list[Comparison]
    seconds: Number
    budget: Number | None
    warnings: list[str]
    measures: list[Change]
    price: Price


class HardenedMeasure(Change, frozen=True, kw_only=True):
    """A measure before and after hardening; `verdict`: "better" or "worse" where the interval excludes 0."""

    better: Literal["lower", "higher"]
    verdict: Literal["better", "worse", "open"]


class TriedRate(Entry, frozen=True, kw_only=True):
    """A learning rate that was tried, and what the loss became; None where that is not known, or beyond all numbers."""

    rate: Number
    loss: Number | None = None


class HardeningTraining(Entry, frozen=True, kw_only=True):
    """`harden-plan.json`: what the training of a hardening is asked, and what came of it.

    Attributes:
        asked: all that decides the weights, but for how long the training is.
        budget: seconds; None where steps were asked for.
        steps: None until a clock has decided.
        marks: see `training.pace`.
        seconds: that it took; None until it is done.
        made: its steps.
        rates: that were tried, the first one taken; empty where none was.
        comparisons: of its attack with a finer one.
    """

    asked: Spec
    budget: Number | None
    steps: Count | None
    marks: list[Count]
    seconds: Number | None = None
    made: Count = 0
    rates: list[TriedRate] = []
    comparisons: list[Comparison] = []


class HardeningImages(Entry, frozen=True, kw_only=True):
    """How many images were learned from, looked at to choose the weights, held out for the audits; and their specs."""

    learned: Count
    looked_at: Count
    held_out: Count
    data: str
    test: str


class HardeningRecord(Entry, frozen=True, kw_only=True):
    """What came of a hardening.

    Attributes:
        encoder: the spec of the hardened encoder; of a network in memory, the file of its weights.
        file: where it lies as a file of its source's own, as an ONNX file; None where there is no such file.
        origin: the spec of the encoder that was hardened, "from" in JSON.
        objective: what it learned.
        ball: in which images were attacked.
        rate: the learning rate.
        rates: all that were tried; the first is taken.
        batchnorm: whose statistics attacked images shared.
        attack: of the training, as it began; None where it learned from a bound.
        looks: along the training, on images held out for them.
        kept: the step whose weights came out.
        comparisons: of the attack with a finer one.
        weights: how many weights were trained of how many; "" where all were.
        steps: of the training.
        pace: see `training.pace`.
        budget: seconds that were asked for; None where steps were.
        seconds: that the training took.
        images: what it learned from, and what it was audited on.
        measures: every measure before and after.
        price: how far representations of images as they are have moved.
        command: does it again; "" where none can.
        audit: the run folder of the audit.
        report: where its report is.
        failures: a sentence for everything that failed.
        warnings: what speaks against the encoder, before and after.
        audit_seconds: that the audits took in this run.
    """

    encoder: str
    file: str | None
    origin: str = field(name="from")
    objective: str
    ball: Spec
    rate: Number
    rates: list[TriedRate]
    batchnorm: str
    attack: Spec | None
    looks: list[LookAtHardening]
    kept: Count
    comparisons: list[Comparison]
    steps: Count
    pace: list[Count]
    budget: Number | None
    seconds: Number
    images: HardeningImages
    measures: list[HardenedMeasure]
    price: Price
    command: str
    audit: str
    report: str
    failures: list[str]
    warnings: list[str]
    audit_seconds: Number = 0.0
    weights: str = ""

    @property
    def summary(self) -> Hardening:
        """What the record of the audit has of it; the measures without labels are the audit's own."""
        return Hardening(
            steps=self.steps,
            kept=self.kept,
            looks=self.looks,
            comparisons=self.comparisons,
            seconds=self.seconds,
            budget=self.budget,
            warnings=self.warnings,
            measures=[row for row in self.measures if row.needs_labels],
            price=self.price,
        )
