"""What all drawings have in common: numbers, and how they are drawn, on a page or on paper.

On a page a drawing is inline SVG whose colours are CSS variables, so that they follow the page.
"""

import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from holdfast.report.apart import catch_draw_errors
from holdfast.report.charts.palette import COLOURS, MARKERS

INK, GRID, CARD, TEXT = "#0c0001", "#0c0002", "#0c0003", "#0c0004"
"""Colours that stand for those of the page: of labels, of lines, of the ground of a chart, of text on a colour."""

PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.6g} %")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.family": "sans-serif", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.linewidth": 0.6, "xtick.major.size": 0, "ytick.major.size": 0,
    "axes.axisbelow": True, "hatch.linewidth": 0.5,
}  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """What a drawing is drawn on.

    Attributes:
        width: in inches.
        height: of a chart that needs no other, in inches.
        size: of its letters, in points.
        small: of the letters of lesser names, in points.
        named: whether the names of lines and points stand on it; a page has them around it.
        marks: whether places worth a name are marked on axes.
        style: what matplotlib is to do otherwise.
    """

    width: float = 5.0
    height: float = 2.8
    size: float = 9
    small: float = 7
    named: bool = False
    marks: bool = True
    style: Mapping[str, Any] = field(default_factory=dict)

    def paint(self, token: str) -> str:
        """Return the colour that a token of this module stands for; here itself, which the page replaces."""
        return token

    def letters(self, count: int) -> int:
        """Return how many letters fit where so many do on the page."""
        return max(8, round(count * (self.width / PAGE.width) * (PAGE.size / self.size)))


PAGE = Sheet()

Value = str | float | int | None
"""A cell of the numbers that a drawing shows."""


@dataclass(frozen=True)
class Drawing(ABC):
    """Numbers, and how they are drawn.

    Attributes:
        key: unique name of the drawing on its page; all ids in its SVG begin with it.
    """

    key: str

    @abstractmethod
    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw it; what has a name is labelled with it."""

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, Value]]:
        """Return the numbers that are drawn, a row for each point; all rows have the same columns."""

    def height(self, sheet: Sheet) -> float:
        """Return how high it is, in inches."""
        return sheet.height

    def style(self) -> Mapping[str, Any]:
        """Return what matplotlib is to do otherwise for this kind of drawing."""
        return {}

    def context(self, sheet: Sheet) -> Any:
        """Return the context of matplotlib's settings in which it is drawn and written."""
        ink, grid = sheet.paint(INK), sheet.paint(GRID)
        colours = dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color", "text.color"), ink)
        colours |= {"axes.edgecolor": grid, "grid.color": grid}
        settings = {**_STYLE, "font.size": sheet.size, **colours, **sheet.style, **self.style()}
        return mpl.rc_context({**settings, "svg.hashsalt": self.key})

    def figure(self, sheet: Sheet) -> Figure:
        """Return it as a figure with one pair of axes; see `context`."""
        figure = Figure(figsize=(sheet.width, self.height(sheet)), layout="constrained")
        self.draw(figure.add_subplot(), sheet)
        return figure

    @catch_draw_errors
    def svg(self) -> str:
        """Return it for a page, as inline SVG."""
        with self.context(PAGE):
            return svg(self.figure(PAGE), self.key)


def colour(series: int) -> str:
    """Return the colour of an encoder, or of something else that is numbered."""
    return f"#0c01{series % COLOURS:02x}"


def shade(share: float) -> str:
    """Return a colour on the way from the first of several lines, 0, to the last, 1."""
    return f"#0c02{round(255 * share):02x}"


def css(token: str) -> str:
    """Return a colour of this module as CSS."""
    kind, level = token[1:5], int(token[5:], 16)
    if kind == "0c02":  # polar, so that the way from one end to the other passes through colours and not through grey
        return f"color-mix(in oklch, var(--e1) {100 * level / 255:.4g}%, var(--e0))"
    return f"var(--s{level})" if kind == "0c01" else f"var(--{('muted', 'line', 'card', 'ink')[level - 1]})"


def marker(series: int) -> str:
    """Return the marker of an encoder."""
    return MARKERS[series % len(MARKERS)]


def finish(axes: Axes, across: str, label: str, units: tuple[str, str]) -> None:
    """Name the axes; shares are written in percent."""
    axes.set_xlabel(across)
    axes.set_ylabel(label)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    for axis, unit in zip((axes.xaxis, axes.yaxis), units, strict=True):
        if unit == "share":
            axis.set_major_formatter(PERCENT)


def cell(value: float | None) -> float | None:
    """Return a number that is drawn, None where there is none."""
    return float(value) if value is not None and math.isfinite(value) else None


def nth(values: Sequence[Any], place: int) -> Any:
    """Return one of some values that may be left out all together; None where they are."""
    return values[place] if len(values) else None


def svg(figure: Figure, key: str) -> str:
    """Return the figure as SVG: no date, ids of its own, colours as CSS variables, size left to the page."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(
        r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true" focusable="false">', text, count=1
    )
    text = re.sub(r'\bid="', f'id="{key}-', text)
    text = text.replace('xlink:href="#', f'href="#{key}-').replace("url(#", f"url(#{key}-")
    return re.sub(r"#0c0[012][0-9a-f]{2}", lambda token: css(token[0]), text)
