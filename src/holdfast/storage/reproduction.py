"""`reproduction.json`, typed: a paper's table beside ours, made by `holdfast reproduce`, printed, written as JSON."""

from typing import Literal

from msgspec import field

from holdfast.numerics.statistics.score import Score
from holdfast.storage.entry import Count, Entry, Number
from holdfast.storage.record import Environment, Software

Outcome = Literal["holds", "fails", "not shown"]
"""What may become of a claim."""

Network = Literal["authors", "trained", "real", "stand-ins"]
"""What numbers are of: networks of the authors, networks trained as theirs were, other real networks, or whatever is
small enough to show how a table is made."""


UNASKED = "nothing is asked here"
"""Why a cell has no number in a row of which only some columns have one."""


class PaperTable(Entry, frozen=True, kw_only=True):
    """Which table was reproduced, see `holdfast.workflows.reproduce.recipe.Reproduction`."""

    name: str
    profile: str
    paper: str
    where: str
    title: str
    units: str
    notes: str


class InputEntry(Entry, frozen=True, kw_only=True):
    """Something that a reproduction began with.

    Attributes:
        about: what it is in the paper.
        says: what stood in for the paper's; "" where nothing did.
        spec: of the encoder or the images; None where there was none.
        problem: why there was none.
    """

    about: str
    says: str
    spec: str | None
    problem: str | None


class ColumnEntry(Entry, frozen=True, kw_only=True):
    """A column, and the unit of its numbers as printed."""

    name: str
    unit: str


class CellEntry(Entry, frozen=True, kw_only=True, omit_defaults=True):
    """A number of the table; the last is written where there were several trainings.

    Attributes:
        published: the paper's; None where it has none.
        scale: by what the paper's number is larger than ours.
        score: ours, in our own unit; None where there is none.
        why: why ours is missing.
        each: what each training came to, by seeds.
    """

    published: Number | None
    scale: Number
    score: Score | None
    why: str
    each: tuple[Number, ...] = ()


class RowEntry(Entry, frozen=True, kw_only=True):
    """A row, with a cell for each column."""

    name: str
    cells: list[CellEntry]


class Published(Entry, frozen=True):
    """What the published numbers say of a claim, without intervals, which papers seldom give.

    Attributes:
        number: how many comparisons, limits or correlations the paper's own table decides or ties.
        as_claimed: how many of them are as claimed.
        ties: those that are neither: equal numbers, such as two at 0; a correlation whose interval holds zero.
        against: those that contradict it.
    """

    number: Count
    as_claimed: Count
    ties: tuple[str, ...] = ()
    against: tuple[str, ...] = ()


class Verdict(Entry, frozen=True):
    """The outcome of a claim in our table.

    Attributes:
        text: the claim.
        outcome: what became of it.
        why: the numbers behind it.
        network: what they are of: the worst where they are of several.
        published: what the paper's own table says of the claim; None where it has no number for it.
    """

    text: str
    outcome: Outcome
    why: str
    network: Network = "stand-ins"
    published: Published | None = None


class Agreement(Entry, frozen=True, kw_only=True):
    """Whether a published number and ours differ by more than the choice of images does.

    Attributes:
        row: of the table.
        column: of the table.
        gap: ours less the published one, in the paper's scale.
        low: lower end of its 95 % interval, in the same.
        high: upper end.
        agrees: whether that interval holds 0.
    """

    row: str
    column: str
    gap: Number
    low: Number
    high: Number
    agrees: bool


class ReproductionRecord(Entry, frozen=True, kw_only=True):
    """A paper's table beside ours.

    Attributes:
        schema: 1.
        holdfast: which version made it.
        environment: where.
        command: that asked for it.
        seconds: of all runs of the table in its folder that came to an end.
        reproduction: which table it is.
        inputs: what it began with, by name.
        columns: of the table.
        rows: of the table.
        alike: rows that one network stands for, together.
        seeds: of its trainings; empty where there was one.
        claims: of the paper's text, judged; none of those that only stand-ins could be asked.
        agreement: of the published numbers with ours, where ours are of the authors' networks or of some trained alike.
        failures: a sentence for everything that failed.
    """

    schema: Literal[1] = 1
    holdfast: Software
    environment: Environment
    command: str
    seconds: Number
    reproduction: PaperTable
    inputs: dict[str, InputEntry]
    columns: list[ColumnEntry]
    rows: list[RowEntry]
    alike: list[list[str]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    claims: list[Verdict]
    agreement: list[Agreement] = field(default_factory=list)
    failures: list[str]


class Rehearsal(Entry, frozen=True, kw_only=True):
    """What became of a table on tiny stand-ins; its numbers mean nothing and are not kept.

    Attributes:
        cells: how many cells the table has.
        empty: those that got no number, and why.
        claims: how many claims it has.
        lost: those that could not be tried, and why.
        failures: what else failed.
        seconds: how long it took.
    """

    cells: Count
    empty: tuple[str, ...]
    claims: Count
    lost: tuple[str, ...]
    failures: tuple[str, ...]
    seconds: Number

    @property
    def complete(self) -> bool:
        """Whether every cell got a number, every claim was tried, and nothing failed."""
        return not (self.empty or self.lost or self.failures)
