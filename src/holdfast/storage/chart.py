"""Charts as a record has them, one type for each kind; what they hold is declared in `holdfast.core.chart`."""

from typing import Literal

from holdfast.storage.entry import Entry, Number, Values


class LineEntry(Entry, frozen=True, kw_only=True):
    """A line of a chart, with the band around it, which may be empty."""

    x: list[Number]
    y: Values
    low: Values
    high: Values
    name: str
    style: Literal["solid", "dashed", "points"]

    def __post_init__(self) -> None:
        ends = [values for values in (self.low, self.high) if values]
        if len({len(values) for values in (self.x, self.y, *ends)}) > 1 or not self.x:
            raise ValueError("x, y, low, high are not equally long, or empty")


class ChartEntry(Entry, tag_field="kind", frozen=True, kw_only=True):
    """What every chart holds; see `holdfast.core.chart`."""

    heading: str
    how_to_read: str
    title: str
    score: str
    note: str
    short: str = ""

    @property
    def kind(self) -> str:
        """Which kind of chart it is, such as "curves"."""
        return str(self.__struct_config__.tag)


class ReadoutsEntry(ChartEntry, tag="readouts", frozen=True, kw_only=True):
    """Scores along an attack, or another axis."""

    scores: list[str]
    at: list[Number]
    across: str
    choice: str


class CurvesEntry(ChartEntry, tag="curves", frozen=True, kw_only=True):
    """Lines with bands."""

    lines: list[LineEntry]
    across: str
    label: str
    unit: str
    most: Number | None
    dotted: Number | None
    summary: str
    scale: Literal["linear", "log"]
    marks: list[Number]
    named: list[str]
    in_255ths: bool = False


class DistributionEntry(ChartEntry, tag="distribution", frozen=True, kw_only=True):
    """How the values of a column spread over the rows."""

    column: str


class ScatterEntry(ChartEntry, tag="scatter", frozen=True, kw_only=True):
    """Two columns against each other."""

    x: str
    y: str
    across: str
    label: str


class RowEntry(ChartEntry, tag="row", frozen=True, kw_only=True):
    """Where a score stands among those of other settings."""

    name: str
    place: list[Number]
    across: str
    setting: list[tuple[str, str]]


class CellsEntry(ChartEntry, tag="cells", frozen=True, kw_only=True):
    """A table of scores."""

    rows: list[str]
    columns: list[str]
    scores: list[list[str]]
    corner: str


class ShadesEntry(ChartEntry, tag="shades", frozen=True, kw_only=True):
    """Columns as shades of one axis."""

    columns: list[str]
    scores: list[str]
    across: str
    label: str


AnyChart = ReadoutsEntry | CurvesEntry | DistributionEntry | ScatterEntry | RowEntry | CellsEntry | ShadesEntry
