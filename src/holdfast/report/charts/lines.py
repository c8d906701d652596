"""Lines with bands."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from holdfast.report.charts.figure import CARD, INK, PAGE, Drawing, Sheet, Value, cell, finish, nth

_DASHES = {"solid": "-", "dashed": (0, (4, 2)), "points": "none"}
_DOTTED = (0, (1, 1.5))
MARKED = 8
"""Marks along a line, about: more would hide it."""

LETTER, LINE, BESIDE = 0.0135, 1.44, 0.6
"""Of the names of places: width of a letter as a share of the page's axis, height of a row in their size; inches beside
the axis."""


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
        name: in a legend; "" for none.
        whose: the encoder that a line without a name belongs to.
    """

    x: Sequence[int | float]
    y: Sequence[int | float]
    low: Sequence[int | float]
    high: Sequence[int | float]
    colour: str
    marker: str = ""
    style: str = "solid"
    hollow: Sequence[bool] = ()
    name: str = ""
    whose: str = ""


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
        ending: of the last tick's name, such as "/255".
    """

    label: str
    at: Sequence[int | float] = ()
    names: Sequence[str] = ()
    whole: bool = False
    most: float | None = None
    log: bool = False
    marks: Sequence[tuple[float, str]] = ()
    ending: str = ""


@dataclass(frozen=True)
class Lines(Drawing):
    """Lines with bands; the first ones lie on top.

    Attributes:
        curves: what is drawn.
        across: the horizontal axis.
        label: what the vertical axis shows.
        unit: "share" is drawn in percent.
        dotted: where a vertical line stands.
        rings: (x, y, colour) around the best values.
    """

    curves: Sequence[Curve]
    across: Horizontal
    _: KW_ONLY
    label: str
    unit: str
    dotted: float | None = None
    rings: Sequence[tuple[float, float, str]] = ()

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest place of a value."""
        return min(x for c in self.curves for x in c.x), max(x for c in self.curves for x in c.x)

    def height(self, sheet: Sheet) -> float:
        """Return more where the names of places stand above the axes."""
        rows = place_marks(self.across.marks, *self.ends, sheet, log=self.across.log)
        return sheet.height + height_of(rows, sheet)

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the lines from the last to the first, then rings, names of places and axes."""
        if self.dotted is not None:
            axes.axvline(self.dotted, color=sheet.paint(INK), linewidth=0.9, linestyle=_DOTTED)
        for c in reversed(self.curves):
            self._curve(axes, c, sheet)
        for at, value, token in self.rings:
            ring = {"marker": "o", "markersize": 12, "markerfacecolor": "none"}
            axes.plot([at], [value], markeredgecolor=sheet.paint(token), **ring)
        _horizontal(axes, self.across, self.ends, sheet)
        draw_marks(axes, place_marks(self.across.marks, *self.ends, sheet, log=self.across.log), sheet)
        # from zero, where that is near; where lines or bands lie on both sides of it, it is drawn
        values = [value for c in self.curves for value in (*c.y, *c.low, *c.high) if value == value]
        if values and 0 <= min(values) < 0.5 * max(values):
            axes.set_ylim(bottom=0)
        if values and min(values) < 0 < max(values):
            axes.axhline(0, color=sheet.paint(INK), linewidth=0.9, alpha=0.7)
        finish(axes, self.across.label, self.label, ("", self.unit))

    def _curve(self, axes: Axes, c: Curve, sheet: Sheet) -> None:
        most, tint = self.across.most, sheet.paint(c.colour)
        x = list(c.x) if most is None else [min(value, most) for value in c.x]
        if len(c.low):
            _band(axes, c, tint, 0.16 if len(self.curves) <= 6 else 0.08)
        # sound values have filled marks, bounds hollow ones; a line of bounds alone is dotted
        hollow = [place for place, flaw in enumerate(c.hollow) if flaw]
        dashes = _DOTTED if c.style == "solid" and len(hollow) == len(x) else _DASHES[c.style]
        sound = [place for place in range(len(x)) if place not in hollow]
        every = sound if c.style == "points" else sound[:: max(1, len(x) // MARKED)]
        small, thin = c.style == "points", c.style == "dashed" or not c.marker
        axes.plot(
            x, c.y, color=tint, linestyle=dashes, linewidth=1.4 if thin else 1.8, label=c.name or None,
            marker=c.marker or None, markevery=every, markersize=3 if small else 5, markeredgewidth=0,
            alpha=0.5 if small else None,
        )  # fmt: skip
        # Of a line some marks are enough, of points every one is needed
        for place in hollow[:: 1 if c.style == "points" else max(1, len(x) // MARKED)]:
            axes.plot(
                [x[place]], [c.y[place]], color=tint, marker=c.marker or "o", markersize=5,
                markerfacecolor=sheet.paint(CARD), markeredgewidth=1.2,
            )  # fmt: skip

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the values of each line in turn, with the ends of its band."""
        for series, c in enumerate(self.curves):
            for place, (x, y) in enumerate(zip(c.x, c.y, strict=True)):
                ends = {end: cell(nth(values, place)) for end, values in (("low", c.low), ("high", c.high))}
                about: dict[str, Value] = {"series": series, "name": c.name or c.whose, "style": c.style}
                yield about | {"x": cell(x), "y": cell(y)} | ends | {"bound": int(bool(nth(c.hollow, place)))}


def _band(axes: Axes, curve: Curve, tint: str, alpha: float) -> None:
    """Fill the band of a line: even, or hatched where the line is dashed, so that both can be told from each other."""
    if curve.style == "dashed":
        axes.fill_between(
            curve.x, curve.low, curve.high, facecolor="none", edgecolor=tint, hatch="//////", alpha=0.45,
            linewidth=0,
        )  # fmt: skip
    else:
        axes.fill_between(curve.x, curve.low, curve.high, color=tint, alpha=alpha, linewidth=0)


def place_marks(
    marks: Sequence[tuple[float, str]], low: float, high: float, sheet: Sheet, *, log: bool = False
) -> list[tuple[float, str, int]]:
    """Return (place, name, row) of the marks: their names stand above the axes, in as few rows as do not touch."""
    letter = LETTER * (PAGE.width - BESIDE) / (sheet.width - BESIDE) * (sheet.small / PAGE.small)
    ends: list[float] = []  # of each row, as a share of the axis
    placed = []
    for place, name in sorted(marks) if sheet.marks else ():
        share = math.log(place / low) / math.log(high / low) if log else (place - low) / (high - low)
        half = letter * len(name) / 2
        row = next((row for row, end in enumerate(ends) if share - half > end), len(ends))
        ends[row : row + 1] = [share + half + letter]
        placed.append((place, name, row))
    return placed


def height_of(rows: Sequence[tuple[float, str, int]], sheet: Sheet) -> float:
    """Return how many inches the names of placed marks need above the axes."""
    return LINE * sheet.small / 72 * max((row + 1 for *_, row in rows), default=0)


def draw_marks(axes: Axes, rows: Sequence[tuple[float, str, int]], sheet: Sheet) -> None:
    """Draw a dotted line at each mark, up to its name; lines pass behind the names below theirs."""
    ink, upright = sheet.paint(INK), axes.get_xaxis_transform()
    line = {"color": ink, "linewidth": 0.7, "linestyle": _DOTTED, "alpha": 0.7}
    for place, name, row in rows:
        axes.plot([place, place], [0, 1], transform=upright, **line)
        raised, name_size = (0, 2 + LINE * sheet.small * row), {"fontsize": sheet.small, "annotation_clip": False}
        beside = {"xycoords": upright, "xytext": raised, "textcoords": "offset points", "va": "bottom", "ha": "center"}
        arrow = {"arrowstyle": "-", "shrinkA": 0, "shrinkB": 0, **line}
        card = {"facecolor": sheet.paint(CARD), "edgecolor": "none", "pad": 0.4}
        axes.annotate("", (place, 1), arrowprops=arrow, **beside, **name_size)
        axes.annotate(name, (place, 1), zorder=4, bbox=card, **beside, **name_size)


def _horizontal(axes: Axes, across: Horizontal, ends: tuple[float, float], sheet: Sheet) -> None:
    """Place the ticks of the horizontal axis, which goes from its first value to its last, about."""
    if across.log:
        axes.set_xscale("log")
        if ends[0] > 0:
            axes.set_xlim(*ends)
        dense = 3 * math.log10(ends[1] / ends[0]) > sheet.letters(60) / 6 if ends[0] > 0 else False
        axes.xaxis.set_major_locator(LogLocator(subs=(1,) if dense else (1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{across.ending}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        return
    if across.most is not None:
        axes.set_xlim(ends[0], across.most)
    if across.names:
        every = -(-len(across.at) // max(2, sheet.letters(10 * MARKED) // 10))
        axes.xaxis.set_major_locator(FixedLocator(across.at[::every]))
        axes.set_xticklabels(across.names[::every])
    elif 0 < len(across.at) <= 10:
        axes.set_xticks(_spread(sorted(set(map(float, across.at))), 3.6 / sheet.letters(60)))
    else:
        axes.xaxis.set_major_locator(
            MaxNLocator(sheet.letters(48) // 6, integer=across.whole, min_n_ticks=1, steps=(1, 2, 5, 10))
        )


def _spread(ticks: list[float], least: float) -> list[float]:
    """Leave out read-outs whose labels would touch: closer than such a share of the axis to the one before."""
    apart = ticks[-1:]
    for tick in reversed(ticks[:-1]):
        if apart[-1] - tick >= least * (ticks[-1] - ticks[0]):
            apart.append(tick)
    return apart[::-1]
