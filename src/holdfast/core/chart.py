"""Charts as data: what a measure or an observation lets the report draw. The report has one renderer for each kind.

All that a chart shows is in the record: numbers of its own, columns of the measure's table, or scores, which it names.
"""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from torch import Tensor

from holdfast.runtime.checked import Checked, Signed, derive_name
from holdfast.runtime.errors import BadValue, unknown

Numbers = Annotated[tuple[float | None, ...], "signed"]
"""Values of a line; None leaves a gap."""

Places = Annotated[tuple[float, ...], "signed"]
"""Where values stand on an axis."""


@dataclass(frozen=True, kw_only=True)
class Chart(metaclass=Checked):
    """Something to draw of one encoder.

    Charts of several encoders with one title, of one measure, become one chart, with a colour for each encoder.

    Attributes:
        heading: charts of one heading stand together, whatever measures they come from.
        how_to_read: what all charts of that heading show, in a few sentences.
        title: of this one; "" for that of its measure.
        score: the score that it is about, by which the chart is marked where a check failed; "" for the headline.
        note: what stands below it.
        short: what files with its figure are called, such as "curve"; "" for the heading.
    """

    heading: str
    how_to_read: str
    title: str = ""
    score: str = ""
    note: str = ""
    short: str = ""


@dataclass(frozen=True)
class Readouts(Chart):
    """Scores with their intervals against a number.

    Attributes:
        scores: names of the scores.
        at: the number of each of them.
        across: what the horizontal axis shows.
        choice: a score that is one of these numbers, the best one: it is ringed and told beside the encoder's name.
    """

    scores: tuple[str, ...]
    at: Places
    across: str
    choice: str = ""


@dataclass(frozen=True)
class Line(metaclass=Checked):
    """One line of `Curves`.

    Attributes:
        x: where.
        y: the values.
        low: lower ends of a band around it, or none.
        high: upper ends of the band.
        name: in the legend. Lines without a name are drawn in the colour of their encoder, lines with one in shades
            from the first name to the last.
        style: "points" are not joined.
    """

    x: Places
    y: Numbers
    low: Numbers = ()
    high: Numbers = ()
    name: str = ""
    style: Literal["solid", "dashed", "points"] = "solid"

    def __post_init__(self) -> None:
        # Bands that are not there are as long as the line
        lengths = {len(self.x), len(self.y), len(self.low) or len(self.x), len(self.high) or len(self.x)}
        if len(lengths) > 1 or not self.x:
            raise BadValue(f"line {self.name!r}: expected equally many x, y, low and high, got {sorted(lengths)}")


@dataclass(frozen=True)
class Curves(Chart):
    """Lines with bands. Lines that have names are one chart for each encoder; all others share one.

    Attributes:
        lines: what is drawn, the most important first.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
        unit: of the values; "share" is drawn in percent.
        most: where the horizontal axis ends, and what lies farther is drawn; None: after the last value.
        dotted: where a vertical dotted line stands.
        in_255ths: whether the horizontal axis, sizes in pixels of a [0, 1] image, is told as n/255.
        scale: of the horizontal axis; what is not above zero is not drawn on a logarithmic one.
        marks: further places worth a name, on a dotted line each.
        named: the names of these places.
        summary: the chart in one sentence, for who cannot see it.
    """

    lines: tuple[Line, ...]
    across: str
    label: str
    unit: Literal["share", "ratio", "similarity", "pixels"] = "ratio"
    most: Signed | None = None
    dotted: Signed | None = None
    in_255ths: bool = False
    scale: Literal["linear", "log"] = "linear"
    marks: Places = ()
    named: tuple[str, ...] = ()
    summary: str = ""

    def __post_init__(self) -> None:
        if len(self.marks) != len(self.named):
            raise BadValue(f"curves: expected a name for each of {len(self.marks)} marks, got {len(self.named)}")


@dataclass(frozen=True, kw_only=True)
class Distribution(Chart):
    """How the values of a column of the measure's table spread over its rows, as a histogram.

    Attributes:
        column: of the table.
    """

    column: str
    heading: str = "Per image"
    short: str = "images"
    how_to_read: str = (
        "The distribution over images of the values behind each score; the mark on the dashed line is the median. "
        "Measures that only answer yes or no for an image are left out."
    )


@dataclass(frozen=True)
class Scatter(Chart):
    """Two columns of the measure's table against each other, a point for each row; on the dashed line both are equal.

    Attributes:
        x: the column across.
        y: the column upwards.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
    """

    x: str
    y: str
    across: str
    label: str


@dataclass(frozen=True)
class Row(Chart):
    """One row, a share with its interval, of a chart that several measures have in common.

    Measures whose rows have one `title` and one `setting` are in one chart, which is drawn where there are two.

    Attributes:
        name: of the row. Rows that read the same are told apart by the parameters of their measures.
        place: where it stands, from the top; a line parts rows whose first numbers differ.
        across: what the horizontal axis, from 0 to 100 %, shows.
        setting: (name, JSON) of the parameters that rows of one chart agree on.
    """

    name: str
    place: tuple[int, ...]
    across: str
    setting: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Cells(Chart):
    """Scores as a table; the highest of each row is bold.

    Attributes:
        rows: heads of the rows.
        columns: heads of the columns.
        scores: names of the scores, row by row.
        corner: what the rows are.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    scores: tuple[tuple[str, ...], ...]
    corner: str


@dataclass(frozen=True)
class Shades(Chart):
    """Shares as a row of coloured cells; the rows of all encoders are one matrix.

    Attributes:
        columns: heads of the cells; encoders whose columns differ leave cells empty.
        scores: name of the score of each cell.
        across: what the columns are.
        label: what the rows are.
    """

    columns: tuple[str, ...]
    scores: tuple[str, ...]
    across: str
    label: str

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.scores):
            raise BadValue(f"shades: expected a score for each of {len(self.columns)} columns, got {len(self.scores)}")


def numbers(values: Tensor) -> Numbers:
    """Return the values of a line, to seven digits; what is not finite leaves a gap."""
    # Seven digits, about as many as float32 holds
    return tuple(float(f"{value:.7g}") if math.isfinite(value) else None for value in values.double().tolist())


def chart_data(chart: Chart, columns: Collection[str] = (), scores: Collection[str] = ()) -> dict[str, Any]:
    """Return a chart as JSON data, with its kind.

    Args:
        chart: the chart.
        columns: of the table that it may read.
        scores: that it may name.

    Raises:
        HoldfastError: something else than a chart, or one that names a column or a score that is not there.
    """
    if not isinstance(chart, Chart):
        raise BadValue(f"expected charts of holdfast.core.chart, got {type(chart).__name__}")
    for key in ("column", "x", "y"):
        if (name := getattr(chart, key, None)) is not None and name not in columns:
            raise unknown("column of a chart", name, columns)
    named = [chart.score, getattr(chart, "choice", "")]
    listed = getattr(chart, "scores", ())
    # A row of names, or rows of names (`Cells`)
    named += [name for item in listed for name in ((item,) if isinstance(item, str) else item)]
    for name in filter(None, named):
        if name not in scores:
            raise unknown("score of a chart", name, scores)
    return {"kind": derive_name(type(chart)), **asdict(chart)}
