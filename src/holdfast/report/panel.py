"""What the page shows of one chart: a picture, or a table, with the words around it."""

from dataclasses import dataclass, field
from functools import cached_property

from holdfast.report.cells import Grid
from holdfast.report.charts.figure import Drawing

Legend = list[tuple[int | str | None, str]]
"""(encoder or group, name): a number has its colour and mark, a text is a CSS colour, None a grey dot."""


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes:
        title: its heading.
        drawing: the picture; None where there is none.
        alt: what it says to those who cannot see it.
        notes: sentences below it.
        legend: its colours, where they are not those of the encoders.
        series: the encoder that it is of, where it is of one alone and its title is that encoder's name.
        table: the table in place of a picture.
        source: what tells it from the others of its section, for names of files.
    """

    title: str
    drawing: Drawing | None = None
    alt: str = ""
    notes: list[str] = field(default_factory=list)
    legend: Legend = field(default_factory=list)
    series: int | None = None
    table: Grid | None = None
    source: str = ""

    @cached_property
    def svg(self) -> str:
        """The picture for a page; "" where there is none."""
        return self.drawing.svg() if self.drawing else ""
