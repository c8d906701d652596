"""Forest plots: a row for each of several measures, with a mark and an interval for each encoder."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.ticker import PercentFormatter

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import CARD, GRID, canvas, colour, marker, svg


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: what stands at its left.
        family: rows of one family stand together; a line parts families.
        points: (series, value, low, high, whether it is only a bound on one side) of each encoder, shares.
    """

    name: str
    family: int | float
    points: Sequence[tuple[int, float, float, float, bool]]


@drawn
def forest(key: str, rows: Sequence[Row], *, across: str) -> str:
    """Return shares with intervals as SVG, from the top down, from 0 to 100 %.

    Args:
        key: unique name of the chart on its page.
        rows: from the top; each of them has a point.
        across: what the horizontal axis shows.
    """
    # As high as its names and marks need
    shown = sorted({point[0] for row in rows for point in row.points})
    step = min(0.26, 0.76 / len(shown))
    names = [textwrap.fill(row.name, 34) for row in rows]
    tall = max(0.32, 0.13 * len(shown), *(0.16 + 0.15 * (1 + name.count("\n")) for name in names))  # inches

    # Encoder by encoder, each at a place of its own in every row; bounds are hollow
    with canvas(key, 0.7 + len(rows) * tall) as (figure, axes):
        for place, series in enumerate(shown):
            tint, shift = colour(series), step * (place - (len(shown) - 1) / 2)
            points = [(at + shift, *p[1:]) for at, row in enumerate(rows) for p in row.points if p[0] == series]
            at, _, low, high, _ = np.array(points).T
            axes.hlines(at, low, high, color=tint, linewidth=1.8)
            for hollow in (False, True):
                marks = [(value, at) for at, value, _, _, flaw in points if flaw == hollow]
                axes.plot(
                    *(np.array(marks).reshape(-1, 2).T), color=tint, marker=marker(series), markersize=5.5,
                    linestyle="none", markeredgewidth=1.2 if hollow else 0, markerfacecolor=CARD if hollow else tint,
                )  # fmt: skip

        # Lines between families, and the axes
        for at, (above, below) in enumerate(pairwise(rows)):
            if above.family != below.family:
                axes.axhline(at + 0.5, color=GRID, linewidth=1.2)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.set_xlabel(across)
        return svg(figure, key)
