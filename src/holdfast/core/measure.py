"""Measures: one question about an encoder each, answered by scores with intervals."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from holdfast.core.chart import Chart, Curves, Distribution
from holdfast.core.classifier import LinearProbe
from holdfast.core.observation import Observation, Reader, Search
from holdfast.core.subject import Subject
from holdfast.core.threat import Ball
from holdfast.numerics.shapes import Table
from holdfast.numerics.statistics.score import Score
from holdfast.numerics.statistics.statistic import Statistic


@dataclass(frozen=True)
class InWords:
    """What a measure answers, in words that begin a report.

    Attributes:
        says: the answer, as a sentence that lacks its first capital and its end: "half of the images … 0.7/255".
        definition: what an expression of it means, as a sentence; "" where it needs none.
        further: sentences that follow.
        is_number: whether the headline says as much, so that a table of several encoders needs no sentence of each.
    """

    says: str
    definition: str = ""
    further: tuple[str, ...] = ()
    is_number: bool = False

    @property
    def text(self) -> str:
        """All of it, without what its expressions mean."""
        return " ".join((f"{self.says[:1].upper()}{self.says[1:]}.", *self.further))


class Measure(Reader):
    """One question about an encoder; a frozen dataclass whose fields are its parameters.

    `observations` names the encoder passes it needs, `observe` maps what they saw to one row per image, and
    `reduce` makes statistics of that table; neither of the last two runs the encoder.

    Attributes:
        better: which direction is more robust.
        unit: of the scores.
        question: what it asks, in one sentence.
        how_to_read: what its values mean, for somebody who meets it first.
        reference: where it is defined.
        reads_labels: whether it reads labels, whatever its fields are.
        needs_relevance: whether it reads which images are relevant to which; an audit of images that are no retrieval
            task then refuses to start.
        answers: whether it answers in a sentence that begins a report, see `in_words`; the first round of an audit in
            rounds asks it alone.
        shown_by: columns of its table by which the least and the most robust images are shown; the first one orders
            them.
        of_any_radius: whether it reads the norm of its ball alone, and not the radius.
        in_brief: whether its headline is one of the few numbers that a report begins with.
        invariant: which changes of the representation change none of its numbers, see `numerics.geometry.invariance`;
            None: what it compares by says so.
    """

    better: Literal["lower", "higher"]
    unit: Literal["share", "ratio", "similarity", "pixels"]
    question: str
    how_to_read: str
    reference: str
    reads_labels: ClassVar[bool] = False
    needs_relevance: ClassVar[bool] = False
    answers: ClassVar[bool] = False
    shown_by: ClassVar[tuple[str, ...]] = ()
    of_any_radius: ClassVar[bool] = False
    in_brief: ClassVar[bool] = False
    invariant: ClassVar[frozenset[str] | None] = None

    @property
    def gloss(self) -> str:
        """The headline in plain words, as the head of a column; "" where the title is as plain."""
        return ""

    @property
    def in_255ths(self) -> bool:
        """Whether sizes are told as n/255: those of radii within which every pixel may move so far."""
        ball = getattr(self, "ball", None)
        return self.unit == "pixels" and isinstance(ball, Ball) and ball.is_box

    @property
    def needs_labels(self) -> bool:
        """Whether it reads labels; an audit of images without labels then refuses to start."""
        return self.reads_labels

    @property
    def optional(self) -> tuple[Observation, ...]:
        """Observations without which it still has an answer, where nothing can be proved."""
        return ()

    @property
    def misfits(self) -> Mapping[str, str]:
        """Which entries of its lists cannot be, whatever the images, and why; they are left out. None for most."""
        return {}

    @property
    def learns(self) -> bool:
        """Whether it learns from labelled images that are not attacked, of which some must then be spared."""
        return self.needs_labels

    @property
    def classes_apart(self) -> bool:
        """Whether training images may have other classes than the images of the audit."""
        return False

    @property
    def corruptions(self) -> tuple[str, ...]:
        """The titles of the corruptions of each of which it has a score."""
        return ()

    @property
    def attention_probe(self) -> LinearProbe | None:
        """The probe of clean images whose classes attention maps show; None where it has none that is linear."""
        return None

    def check(self, ids: Sequence[str]) -> None:
        """Raise at once what an audit would find without an encoder: files that are not there, or are of other images.

        Args:
            ids: of the images of the audit.

        Raises:
            HoldfastError: files that do not fit; by default nothing is read.
        """
        return

    @property
    @abstractmethod
    def column(self) -> str:
        """The table's column of per-image values behind the headline."""

    @abstractmethod
    def observe(self, subject: Subject) -> Table:
        """Map: one row per image; no encoder pass."""

    @abstractmethod
    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Reduce: named statistics of a table; the last one is the headline."""

    def score(self, table: Table) -> dict[str, Score]:
        """Return the scores of a table by their names; the last one is the headline.

        Args:
            table: what it observed.
        """
        return {name: statistic.score() for name, statistic in self.reduce(table).items()}

    def influence(self, table: Table, score: str | None = None) -> Float[Tensor, "units"]:
        """Return each independent unit's influence on a score, up to a factor.

        The correlation of two encoders' influences on the same images is what a paired comparison gains.

        Args:
            table: what it observed.
            score: its name; None: the headline.

        Raises:
            KeyError: a score that the table has not.
        """
        reduced = self.reduce(table)
        return reduced[list(reduced)[-1] if score is None else score].influence()

    @property
    def searches(self) -> tuple[Search, ...]:
        """The searches that its scores rely on: those of all that is observed, unless the measure knows better."""
        return tuple(dict.fromkeys(search for observation in self.observations() for search in observation.searches))

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

    def pairs(self, images: int) -> int:
        """Return how many pairs of clean representations it compares, where these cost time; 0 for most.

        Args:
            images: of the population.
        """
        return 0

    def shrink_for_timing(self, subject: Subject) -> tuple["Measure", float]:
        """Return itself with fewer comparisons, and how many times as long all of them take, for an estimate.

        Args:
            subject: the encoder that was observed.

        Returns:
            the measure as it is, and 1, for most.
        """
        return self, 1.0

    def rows(self, table: Table) -> list[str] | None:
        """Return what the rows of a table are called; None where they are the first images of the population."""
        return None

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return what the report draws of it, beside its scores; by default how `column` spreads over the images.

        Args:
            table: what it observed.
            scores: what `score` made of it.
        """
        return (Distribution(column=self.column),) if self.rows(table) is None else ()

    def contrast(self, tables: tuple[Table, Table], names: tuple[str, str]) -> Curves | None:
        """Return lines of how two encoders differ on the same images, beside their headlines' difference.

        Args:
            tables: what it observed of each.
            names: of the encoders.

        Returns:
            lines without names, the first encoder minus the second, whose summary is one sentence; None for most.
        """
        return None

    def in_words(self, table: Table, scores: Mapping[str, Score]) -> InWords | None:
        """Return the answer in words that begins a report; None for most, whose numbers stand in tables.

        Args:
            table: what it observed.
            scores: what `score` made of it.
        """
        return None
