"""A comparison of the encoders of several audits, typed: made by `compare`, shown by reports, written as JSON."""

from typing import Any

from holdfast.numerics.statistics.score import Score
from holdfast.storage.entry import Entry, Spec
from holdfast.storage.record import ContrastEntry


class ComparedRun(Entry, frozen=True, kw_only=True):
    """An audit that is compared: its folder, what wrote it, and when."""

    place: str
    holdfast: str
    finished: str
    command: str


class ComparedEncoder(Entry, frozen=True, kw_only=True):
    """An encoder that is compared.

    Attributes:
        name: told apart from the encoders of the other audits.
        spec: its name in the record of its run.
        run: the folder of its audit.
        fingerprint: of its weights.
        origin: where it comes from.
        round: the round that its record ends with; None where it was made in one go.
        unfit: checks by which its numbers mean nothing.
        warns: checks that warn.
        fails: checks that failed and were not accepted.
        called: what checks call it, such as "Looks untrained": it is then not ranked; "" for most.
        bars: the checks for which it is called best on nothing, and what they found.
        seeds: of a method, the encoders that it stands for; its checks say the worst that they say of any of them.
    """

    name: str
    spec: str
    run: str
    fingerprint: str | None
    origin: dict[str, Any]
    round: int | None
    unfit: list[str]
    warns: list[str]
    fails: list[str]
    called: str = ""
    bars: list[str] = []
    seeds: "list[ComparedEncoder]" = []


class Behind(Entry, frozen=True, kw_only=True):
    """How an encoder differs from the one with the best value: itself minus that one."""

    difference: Score
    p: float | None
    p_adjusted: float | None


class ComparedPair(Behind, frozen=True, kw_only=True):
    """Two encoders on a measure: the first minus the second, and who wins after correction."""

    first: str
    second: str
    winner: str | None


class RankedRow(Entry, frozen=True, kw_only=True):
    """An encoder on a measure.

    Attributes:
        encoder: its name.
        score: its headline; None where it has none.
        headline: the name of that score.
        scores: all of its scores.
        rank: the first and the last place that it may have; None where it has none.
        best: whether it is better than each other one.
        behind: how it differs from the one with the best value.
        why_not: why it has no rank; None where it has one.
        seeds: of a method, the headlines of its seeds, whose mean its score is.
    """

    encoder: str
    score: Score | None
    headline: str | None
    scores: dict[str, Score]
    rank: tuple[int, int] | None
    best: bool
    behind: Behind | None
    why_not: str | None
    seeds: dict[str, Score] = {}


class ComparedMeasure(Entry, frozen=True, kw_only=True):
    """A measure on which encoders are compared: what it asks, a row for each encoder, every pair, and charts.

    Attributes:
        answers: whether it answers in words.
        levels: whether sizes are said in grey levels.
        leader: the encoder with the best value that may win.
        best: the encoder that beats each other one; None where there is none.
    """

    part: Spec
    title: str
    better: str
    unit: str
    needs_labels: bool
    question: str
    how_to_read: str
    reference: str
    answers: bool
    levels: bool
    in_brief: bool
    leader: str | None
    best: str | None
    rows: list[RankedRow]
    pairs: list[ComparedPair]
    charts: list[ContrastEntry]


class ParetoPoint(Entry, frozen=True, kw_only=True):
    """An encoder on two measures, and those that are better on both."""

    encoder: str
    x: Score
    y: Score
    dominated_by: list[str]


class Pareto(Entry, frozen=True, kw_only=True):
    """Two measures against each other; `why_not`: why there are not two."""

    x: str | None
    y: str | None
    why_not: str | None
    points: list[ParetoPoint]


class Unreadable(Entry, frozen=True, kw_only=True):
    """An audit that could not be read or compared, and why."""

    place: str
    reason: str


class Comparison(Entry, frozen=True, kw_only=True):
    """How encoders of several audits compare.

    Attributes:
        correction: of the p-values for their number.
        promises: what verdicts after this correction promise, in words.
        comparisons: how many p-values there are.
        assumed: what they assume, in words.
        conditions: what all audits have in common, see `storage.conditions`, and the spec of the data.
        left_out: what is not compared, a sentence each.
        cautions: what a reader should know, a sentence each.
        problems: what failed, a sentence each.
    """

    correction: str
    promises: str
    comparisons: int
    assumed: str
    conditions: dict[str, Any]
    runs: list[ComparedRun]
    encoders: list[ComparedEncoder]
    measures: dict[str, ComparedMeasure]
    pareto: Pareto
    left_out: list[str]
    cautions: list[str]
    problems: list[str]


class Leaderboard(Entry, frozen=True, kw_only=True):
    """Audits in groups that can be compared, the largest first, and those that are on no table."""

    groups: list[Comparison]
    unreadable: list[Unreadable] = []
    place: str = ""
