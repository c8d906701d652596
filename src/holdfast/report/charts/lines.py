"""Lines with bands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import CARD, INK, canvas, finish, svg

_DASHES = {"solid": "-", "dashed": (0, (4, 2)), "points": "none"}
_DOTTED = (0, (1, 1.5))
MARKED = 8
"""Marks along a line, about: more would hide it."""

LETTER, ROW, LINE = 0.0135, 0.065, 0.14
"""Of the names of places: width of a letter as a share of the axis, height of a row, the same in inches."""


@dataclass(frozen=True)
class Curve:
    """A line: y at each x, with a band; NaN leaves a gap.

    Attributes:
        x: where.
        y: the values.
        low: lower ends of the band; empty for none.
        high: upper ends of the band.
        colour: see `figure`.
        marker: at the values; "" for none.
        style: "solid", "dashed", or "points".
        hollow: for each value whether it is only a bound on one side; empty where none is.
    """

    x: Sequence[int | float]
    y: Sequence[int | float]
    low: Sequence[int | float]
    high: Sequence[int | float]
    colour: str
    marker: str = ""
    style: str = "solid"
    hollow: Sequence[bool] = ()


@dataclass(frozen=True)
class Horizontal:
    """The horizontal axis.

    Attributes:
        label: what it shows.
        at: ticks; empty for round numbers.
        names: of the ticks; empty for their numbers.
        whole: whether round numbers are whole ones.
        most: where it ends, and what lies farther is drawn; None: after the last value.
        log: whether it is logarithmic.
        marks: places with a name, on a dotted line each.
    """

    label: str
    at: Sequence[int | float] = ()
    names: Sequence[str] = ()
    whole: bool = False
    most: float | None = None
    log: bool = False
    marks: Sequence[tuple[float, str]] = ()


@drawn
def lines(
    key: str,
    curves: Sequence[Curve],
    across: Horizontal,
    *,
    label: str,
    unit: str,
    dotted: float | None = None,
    rings: Sequence[tuple[float, float, str]] = (),
) -> str:
    """Return lines with bands as SVG; the first ones lie on top.

    Args:
        key: unique name of the chart on its page; all ids in the SVG begin with it.
        curves: what is drawn.
        across: the horizontal axis.
        label: what the vertical axis shows.
        unit: "share" is drawn in percent.
        dotted: where a vertical line stands.
        rings: (x, y, colour) around the best values.
    """
    ends = min(x for c in curves for x in c.x), max(x for c in curves for x in c.x)
    rows = _rows(across, *ends) if across.marks else []
    with canvas(key, 2.8 + LINE * max((row + 1 for *_, row in rows), default=0)) as (figure, axes):
        if dotted is not None:
            axes.axvline(dotted, color=INK, linewidth=0.9, linestyle=_DOTTED)
        for c in reversed(curves):
            x = list(c.x) if across.most is None else [min(value, across.most) for value in c.x]
            if len(c.low):
                _band(axes, c, 0.16 if len(curves) <= 6 else 0.08)
            # sound values have filled marks, bounds hollow ones; a line of bounds alone is dotted
            hollow = [place for place, flaw in enumerate(c.hollow) if flaw]
            dashes = _DOTTED if c.style == "solid" and len(hollow) == len(x) else _DASHES[c.style]
            sound = [place for place in range(len(x)) if place not in hollow]
            every = sound if c.style == "points" else sound[:: max(1, len(x) // MARKED)]
            small, thin = c.style == "points", c.style == "dashed" or not c.marker
            axes.plot(
                x, c.y, color=c.colour, linestyle=dashes, linewidth=1.4 if thin else 1.8,
                marker=c.marker or None, markevery=every, markersize=3 if small else 5, markeredgewidth=0,
                alpha=0.5 if small else None,
            )  # fmt: skip
            for place in hollow[:: max(1, len(x) // MARKED)]:
                axes.plot(
                    [x[place]], [c.y[place]], color=c.colour, marker=c.marker or "o", markersize=5,
                    markerfacecolor=CARD, markeredgewidth=1.2,
                )  # fmt: skip
        for at, value, colour in rings:
            axes.plot([at], [value], marker="o", markersize=12, markerfacecolor="none", markeredgecolor=colour)
        _horizontal(axes, across, ends)
        _marks(axes, rows)
        # from zero, where that is near; where lines or bands lie on both sides of it, it is drawn
        values = [value for c in curves for value in (*c.y, *c.low, *c.high) if value == value]
        if values and 0 <= min(values) < 0.5 * max(values):
            axes.set_ylim(bottom=0)
        if values and min(values) < 0 < max(values):
            axes.axhline(0, color=INK, linewidth=0.9, alpha=0.7)
        finish(axes, across.label, label, ("", unit))
        return svg(figure, key)


def _band(axes: Axes, curve: Curve, alpha: float) -> None:
    """Fill the band of a line: even, or hatched where the line is dashed, so that both can be told from each other."""
    if curve.style == "dashed":
        axes.fill_between(
            curve.x, curve.low, curve.high, facecolor="none", edgecolor=curve.colour, hatch="//////", alpha=0.45,
            linewidth=0,
        )  # fmt: skip
    else:
        axes.fill_between(curve.x, curve.low, curve.high, color=curve.colour, alpha=alpha, linewidth=0)


def _rows(across: Horizontal, low: float, high: float) -> list[tuple[float, str, int]]:
    """Return (place, name, row) of the marks: their names stand above the axes, in as few rows as do not touch."""
    ends: list[float] = []  # of each row, as a share of the axis
    placed = []
    for place, name in sorted(across.marks):
        share = math.log(place / low) / math.log(high / low) if across.log else (place - low) / (high - low)
        half = LETTER * len(name) / 2
        row = next((row for row, end in enumerate(ends) if share - half > end), len(ends))
        ends[row : row + 1] = [share + half + LETTER]
        placed.append((place, name, row))
    return placed


def _marks(axes: Axes, rows: Sequence[tuple[float, str, int]]) -> None:
    """Draw a dotted line at each mark, up to its name."""
    upright = axes.get_xaxis_transform()
    for place, name, row in rows:
        top = 1.02 + ROW * row
        axes.plot(
            [place, place], [0, top], transform=upright, color=INK, linewidth=0.7, linestyle=_DOTTED, alpha=0.7,
            clip_on=False,
        )  # fmt: skip
        axes.annotate(
            name, (place, top), xycoords=upright, va="bottom", ha="center", fontsize=7, annotation_clip=False,
            bbox={"facecolor": CARD, "edgecolor": "none", "pad": 0.4},
        )  # fmt: skip


def _horizontal(axes: Axes, across: Horizontal, ends: tuple[float, float]) -> None:
    """Place the ticks of the horizontal axis, which goes from its first value to its last, about."""
    if across.log:
        axes.set_xscale("log")
        if ends[0] > 0:
            axes.set_xlim(*ends)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        return
    if across.most is not None:
        axes.set_xlim(ends[0], across.most)
    if across.names:
        every = -(-len(across.at) // MARKED)
        axes.xaxis.set_major_locator(FixedLocator(across.at[::every]))
        axes.set_xticklabels(across.names[::every])
    elif 0 < len(across.at) <= 10:
        axes.set_xticks(_spread(sorted(set(map(float, across.at)))))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=across.whole, min_n_ticks=1, steps=(1, 2, 5, 10)))


def _spread(ticks: list[float]) -> list[float]:
    """Leave out read-outs whose labels would touch: closer than 6 % of the axis to the one before."""
    apart = ticks[-1:]
    for tick in reversed(ticks[:-1]):
        if apart[-1] - tick >= 0.06 * (ticks[-1] - ticks[0]):
            apart.append(tick)
    return apart[::-1]
