"""Lines with bands."""

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
    with canvas(key) as (figure, axes):
        if dotted is not None:
            axes.axvline(dotted, color=INK, linewidth=0.9, linestyle=_DOTTED)
        for c in reversed(curves):
            x = list(c.x) if across.most is None else [min(value, across.most) for value in c.x]
            if len(c.low):
                alpha = 0.16 if len(curves) <= 6 else 0.08
                axes.fill_between(c.x, c.low, c.high, color=c.colour, alpha=alpha, linewidth=0)
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
        for place, name in across.marks:
            axes.axvline(place, color=INK, linewidth=0.7, linestyle=_DOTTED, alpha=0.7)
            axes.annotate(
                name, (place, 0), xycoords=("data", "axes fraction"), xytext=(2, 3), textcoords="offset points",
                rotation=90, va="bottom", ha="left", fontsize=7,
            )  # fmt: skip
        _horizontal(axes, across, min(x for c in curves for x in c.x))
        values = [value for c in curves for value in c.y if value == value]
        if values and 0 <= min(values) < 0.5 * max(values):
            axes.set_ylim(bottom=0)
        finish(axes, across.label, label, ("", unit))
        return svg(figure, key)


def _horizontal(axes: Axes, across: Horizontal, first: float) -> None:
    """Place the ticks of the horizontal axis."""
    if across.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        return
    if across.most is not None:
        axes.set_xlim(first, across.most)
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
