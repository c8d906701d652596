"""What all drawings have in common: inline SVG whose colours are CSS variables, so that they follow the page."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

COLOURS = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Eight colours and seven markers: coprime, so the first 56 encoders all look different."""

INK, GRID, CARD = "#0c0001", "#0c0002", "#0c0003"
"""Colours that stand for those of the page: of text, of lines, of the ground of a chart."""

PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.6g} %")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 9, "font.family": "sans-serif",
    "axes.edgecolor": GRID, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "text.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": GRID,
    "grid.linewidth": 0.6, "xtick.major.size": 0, "ytick.major.size": 0, "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
}  # fmt: skip


@contextmanager
def canvas(key: str, height: float = 2.8, style: dict[Any, Any] | None = None) -> Iterator[tuple[Figure, Axes]]:
    """Give a figure of the page's width, in inches, with one pair of axes; `key` makes its ids the same every time."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}), mpl.rc_context(style or {}):
        figure = Figure(figsize=(5.0, height), layout="constrained")
        yield figure, figure.add_subplot()


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
    return f"var(--s{level})" if kind == "0c01" else f"var(--{('muted', 'line', 'card')[level - 1]})"


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
