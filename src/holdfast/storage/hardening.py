"""`harden.json`, typed: what came of a hardening, made by `holdfast harden`, shown by reports, written as JSON."""

from typing import Literal

from msgspec import field

from holdfast.numerics.statistics.score import Score
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


class Hardening(Entry, frozen=True, kw_only=True):
    """What hardening changed, and what it took."""

    steps: Count
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


class HardeningImages(Entry, frozen=True, kw_only=True):
    """How many images were learned from, how many others were held out for the audits, and the specs of both."""

    learned: Count
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
            seconds=self.seconds,
            budget=self.budget,
            warnings=self.warnings,
            measures=[row for row in self.measures if row.needs_labels],
            price=self.price,
        )
