"""What the gate found, typed: made by `holdfast check`, shown by reports and in CI, written as JSON."""

from typing import Literal

from holdfast.numerics.statistics.score import Score
from holdfast.storage.entry import Count, Entry, Number
from holdfast.storage.finding import Finding
from holdfast.storage.index_upgrade import IndexUpgrade

Verdict = Literal["worse", "no worse", "lost", "cannot tell", "better"]
"""What became of a score; "lost" where the baseline has a number and the run has none."""


class MarginEntry(Entry, frozen=True, kw_only=True):
    """What may be lost of a score: as it was written, in the score's unit (None where that is not known)."""

    written: str
    amount: Number | None
    relative: bool


class SharedImages(Entry, frozen=True, kw_only=True):
    """How many images are behind a score now and in the baseline, and how many of them both have."""

    now: Count
    baseline: Count
    shared: Count | None


class Needed(Entry, frozen=True, kw_only=True):
    """How many images would tell with 80 % power; None where no number would.

    Attributes:
        as_measured: were the true values those that were measured.
        if_equal: were both the baseline's.
        of: what is counted, "images" or "attacked images".
        available: how many the source has.
    """

    as_measured: Count | None
    if_equal: Count | None
    of: str
    available: Count


class HeldScore(Entry, frozen=True, kw_only=True):
    """A score held against the baseline's.

    Attributes:
        encoder: whose it is.
        baseline_encoder: whose it is held against.
        measure: the name of the measure.
        title: what people call that.
        score: the name of the score.
        is_headline: whether it stands for the measure.
        better: which direction is more robust.
        unit: of the score.
        levels: whether its size is said in grey levels.
        margin: what may be lost.
        verdict: what became of it.
        reason: why nothing else can be said.
        baseline: the baseline's; None where it has none.
        now: the run's; None where it has none.
        change: the difference, with its interval.
        paired: whether images were compared one by one.
        images: how many; None where rows are no images.
        correlation: of what each image contributes to both.
        p: of the verdict.
        p_adjusted: the same, corrected for how many there are.
        needed: how many images would tell more.
    """

    encoder: str
    baseline_encoder: str
    measure: str
    title: str
    score: str
    is_headline: bool
    better: str
    unit: str
    levels: bool
    margin: MarginEntry
    verdict: Verdict = "cannot tell"
    reason: str = ""
    baseline: Score | None = None
    now: Score | None = None
    change: Score | None = None
    paired: bool = False
    images: SharedImages | None = None
    correlation: float | None = None
    p: float | None = None
    p_adjusted: float | None = None
    needed: Needed | None = None


class Regression(Entry, frozen=True, kw_only=True):
    """What became worse since a baseline.

    Attributes:
        baseline: the folder of its run.
        paired: whether both runs are on the same images.
        comparisons: how many scores were tested.
        promises: what the verdicts promise, in words.
        passed: whether nothing became worse, or was lost.
        verdicts: every score that is held.
        left_out: what is not held, a sentence each.
        cautions: what a reader should know, a sentence each.
    """

    baseline: str
    paired: bool
    comparisons: Count
    promises: str
    passed: bool
    verdicts: list[HeldScore]
    left_out: list[str]
    cautions: list[str]


class Gate(Entry, frozen=True, kw_only=True):
    """What the gate found.

    Attributes:
        record: the folder of the run.
        status: the exit status.
        passed: whether all requirements are met and nothing became worse.
        verdict: "undecided" where it passed, but something cannot be told.
        met: whether all requirements are.
        findings: each requirement of each encoder.
        regression: what became worse; None without a baseline.
        index: what changes behind an index, for each encoder; empty where nothing was asked about one.
        strict: whether what cannot be told fails.
        warnings: what checks call the encoders that are held, such as untrained, and what they found.
    """

    record: str
    status: Count
    passed: bool
    verdict: Literal["passed", "undecided", "failed"]
    met: bool
    findings: list[Finding]
    regression: Regression | None
    index: list[IndexUpgrade]
    strict: bool
    warnings: list[str] = []
