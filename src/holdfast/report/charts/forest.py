"""Forest plots: a row for each of several measures, with a mark and an interval for each encoder."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from holdfast.report.charts.figure import CARD, GRID, PAGE, Drawing, Sheet, Value, colour, marker


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: what stands at its left.
        family: rows of one family stand together; a line parts families.
        points: (series, value, low, high, whether it is only a bound on one side) of each encoder.
    """

    name: str
    family: int | float
    points: Sequence[tuple[int, float, float, float, bool]]


@dataclass(frozen=True)
class Forest(Drawing):
    """Numbers with intervals, from the top down; shares from 0 to 100 %.

    Attributes:
        lines: from the top; each of them has a point.
        across: what the horizontal axis shows.
        names: of the encoders by their numbers, for a legend.
        unit: "share" is drawn in percent.
    """

    lines: Sequence[Row]
    _: KW_ONLY
    across: str
    names: Mapping[int, str] = field(default_factory=dict)
    unit: str = "share"

    def _titles(self, sheet: Sheet) -> list[str]:
        return [textwrap.fill(row.name, sheet.letters(34)) for row in self.lines]

    def _list_series(self) -> list[int]:
        return sorted({point[0] for row in self.lines for point in row.points})

    def height(self, sheet: Sheet) -> float:
        """Return as much as its names and marks need."""
        names = (0.16 + 0.15 * (1 + name.count("\n")) for name in self._titles(sheet))
        tall = max(0.32, 0.13 * len(self._list_series()), *names)
        return (0.7 + len(self.lines) * tall) * sheet.size / PAGE.size

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw encoder by encoder, each at a place of its own in every row; bounds are hollow."""
        shown = self._list_series()
        step = min(0.26, 0.76 / len(shown))
        for place, series in enumerate(shown):
            tint, shift = sheet.paint(colour(series)), step * (place - (len(shown) - 1) / 2)
            points = [(at + shift, *p[1:]) for at, row in enumerate(self.lines) for p in row.points if p[0] == series]
            at, _, low, high, _ = np.array(points).T
            axes.hlines(at, low, high, color=tint, linewidth=1.8)
            names = [self.names.get(series)]  # once, though marks may be of two kinds
            for hollow in (False, True):
                marks = [(value, at) for at, value, _, _, flaw in points if flaw == hollow]
                if marks:
                    axes.plot(
                        *np.array(marks).T, color=tint, marker=marker(series), markersize=5.5, linestyle="none",
                        markeredgewidth=1.2 if hollow else 0, label=names.pop() if names else None,
                        markerfacecolor=sheet.paint(CARD) if hollow else tint,
                    )  # fmt: skip

        # Lines between families, and the axes
        for at, (above, below) in enumerate(pairwise(self.lines)):
            if above.family != below.family:
                axes.axhline(at + 0.5, color=sheet.paint(GRID), linewidth=1.2)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(self.lines)), self._titles(sheet))
        axes.set_ylim(len(self.lines) - 0.5, -0.5)
        if self.unit == "share":
            axes.set_xlim(-0.02, 1.02)
            axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.set_xlabel(self.across)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the points from the top down; `row` counts the rows from 0."""
        for at, row in enumerate(self.lines):
            for series, value, low, high, hollow in row.points:
                about: dict[str, Value] = {"series": series, "name": self.names.get(series, ""), "row": at}
                yield about | {"title": row.name, "x": value, "low": low, "high": high, "bound": int(hollow)}
