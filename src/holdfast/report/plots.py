"""Charts as inline SVG whose colours are CSS variables, so that they follow the theme of the page."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from holdfast.report.apart import drawn

COLOURS = 8
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Eight colours and seven markers: coprime, so the first 56 encoders all look different."""

_INK, _GRID = "#0c0001", "#0c0002"
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "text.parse_math": False, "font.size": 9, "font.family": "sans-serif",
    "axes.edgecolor": _GRID, "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "text.color": _INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": _GRID,
    "grid.linewidth": 0.6, "xtick.major.size": 0, "ytick.major.size": 0, "axes.axisbelow": True,
}  # fmt: skip
_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.6g} %")


@dataclass(frozen=True)
class Curve:
    """One encoder's line: y at each x, with a band; `series` picks colour and marker."""

    series: int
    x: Sequence[int | float]
    y: Sequence[int | float]
    low: Sequence[int | float]
    high: Sequence[int | float]


@drawn
def lines(
    key: str,
    curves: Sequence[Curve],
    *,
    unit: str,
    label: str,
    markers: bool = True,
    across: str = "attack steps",
) -> str:
    """Return lines with bands over attack steps, or something else, as SVG.

    Args:
        key: unique name of the chart on its page; all ids in the SVG begin with it.
        curves: one per encoder; NaN leaves a gap.
        unit: "share" is drawn in percent.
        label: what the vertical axis shows.
        markers: mark every point (few read-outs) or only some (a point per step).
        across: what the horizontal axis shows; steps are whole numbers.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        for c in curves:
            colour = _colour(c.series)
            every = None if markers else max(1, len(c.x) // 5)
            axes.fill_between(c.x, c.low, c.high, color=colour, alpha=0.16 if len(curves) <= 6 else 0.06, linewidth=0)
            axes.plot(
                c.x, c.y, color=colour, marker=MARKERS[c.series % len(MARKERS)], markevery=every, markersize=5,
                linewidth=1.8, markeredgewidth=0,
            )  # fmt: skip
        ticks = sorted({float(x) for c in curves for x in c.x})
        if markers and len(ticks) <= 8:
            axes.set_xticks(_spread(ticks))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(8, integer=across == "attack steps"))
        axes.set_xlabel(across)
        _finish(axes, label, unit)
        return _svg(figure, key)


@drawn
def histogram(key: str, values: Sequence[tuple[int, np.ndarray]], *, label: str, bins: int = 32) -> str:
    """Return overlaid histograms with shared bins as SVG; a marker stands at each median.

    Args:
        key: unique name of the chart on its page.
        values: (series, finite values [images]) per encoder, none of them empty.
        label: what the horizontal axis shows.
        bins: number of bins over the range of all values together.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        everything = np.concatenate([v for _, v in values])
        edges = np.histogram_bin_edges(everything, bins=bins)
        counts = [np.histogram(v, bins=edges)[0] / len(v) for _, v in values]
        top = max(float(c.max()) for c in counts)
        for (series, v), share in zip(values, counts, strict=True):
            colour = _colour(series)
            axes.stairs(share, edges, fill=True, color=colour, alpha=0.18 if len(values) <= 6 else 0.04, linewidth=0)
            axes.stairs(share, edges, color=colour, linewidth=1.4)
            median = float(np.median(v))
            axes.plot([median, median], [0, top * 1.1], color=colour, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.plot(
                [median], [top * 1.1], color=colour, marker=MARKERS[series % len(MARKERS)], markersize=6,
                markeredgewidth=0,
            )  # fmt: skip
        axes.set_ylim(0, top * 1.2)
        axes.set_xlabel(label)
        _finish(axes, "share of images", "share")
        return _svg(figure, key)


@dataclass(frozen=True)
class Margins:
    """One encoder's margin distributions, Ψ(d) = exp(-(d/scale)^shape), and how far its attacked images went.

    Attributes:
        series: picks colour and marker.
        shape: one per image, finite.
        scale: one per image, in units of d.
        distance: d = 1 - ρ of each attacked image to its original.
    """

    series: int
    shape: np.ndarray
    scale: np.ndarray
    distance: np.ndarray


@drawn
def margin_distribution(key: str, encoders: Sequence[Margins]) -> str:
    """Return Ψ against 1 - ρ as SVG: a line for the median image, dashed ones for the least and the most robust.

    Images are ranked by the distance where their Ψ is one half, s (log 2)^(1/a). Points show where the attack brought
    each image, on its own Ψ.

    Args:
        key: unique name of the chart on its page.
        encoders: one per encoder, none of them without images.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        halves = [m.scale * np.log(2) ** (1 / m.shape) for m in encoders]
        right = 1.5 * max(float(half.max()) for half in halves)
        d = np.linspace(0, right, 200)
        for m, half in zip(encoders, halves, strict=True):
            order, colour = np.argsort(half), _colour(m.series)
            for image, dashes in ((order[0], (0, (2, 2))), (order[-1], (0, (2, 2))), (order[len(order) // 2], "-")):
                psi = np.exp(-((d / m.scale[image]) ** m.shape[image]))
                axes.plot(d, psi, color=colour, linewidth=1.8 if dashes == "-" else 1.0, linestyle=dashes)
            psi = np.exp(-((m.distance / m.scale) ** m.shape))
            axes.plot(
                np.minimum(m.distance, right), psi, color=colour, marker=MARKERS[m.series % len(MARKERS)], markersize=3,
                linestyle="none", markeredgewidth=0, alpha=0.5,
            )  # fmt: skip
        axes.set_xlim(0, right)
        axes.set_xlabel("distance to the original, 1 - cosine (farther points at the edge)")
        _finish(axes, "still a positive sample", "share")
        return _svg(figure, key)


@drawn
def scatter(
    key: str,
    points: Sequence[tuple[int, np.ndarray, np.ndarray]],
    *,
    x: str,
    y: str,
    units: tuple[str, str] | None = None,
) -> str:
    """Return points, with the diagonal on which both values agree where both have one unit, as SVG.

    Args:
        key: unique name of the chart on its page.
        points: (series, finite x [images], finite y [images]) per encoder, none of them empty.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        units: of x and y, where they are different things; "share" is drawn in percent.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        if units is None:
            ends = [float(end) for _, a, b in points for v in (a, b) for end in (v.min(), v.max())]
            low, high = min(*ends, 0.0), max(ends)
            axes.plot([low, high], [low, high], color=_INK, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.axhline(0, color=_INK, linewidth=0.6)
        for series, a, b in points:
            axes.plot(
                a, b, color=_colour(series), marker=MARKERS[series % len(MARKERS)], markersize=4, linestyle="none",
                alpha=0.6, markeredgewidth=0,
            )  # fmt: skip
        axes.set_xlabel(x)
        if units is not None and units[0] == "share":
            axes.xaxis.set_major_formatter(_PERCENT)
        _finish(axes, y, "ratio" if units is None else units[1])
        return _svg(figure, key)


def _colour(series: int) -> str:
    return f"#0c01{series % COLOURS:02x}"


def _axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.0, 2.8), layout="constrained")
    return figure, figure.add_subplot()


def _spread(ticks: list[float]) -> list[float]:
    """Leave out read-outs whose labels would touch: closer than 6 % of the axis to the one before."""
    kept = ticks[-1:]
    for tick in reversed(ticks[:-1]):
        if kept[-1] - tick >= 0.06 * (ticks[-1] - ticks[0]):
            kept.append(tick)
    return kept[::-1]


def _finish(axes: Axes, label: str, unit: str) -> None:
    axes.set_ylabel(label)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if unit == "share":
        axes.yaxis.set_major_formatter(_PERCENT)


def _svg(figure: Figure, key: str) -> str:
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
    text = re.sub(r"#0c01([0-9a-f]{2})", lambda m: f"var(--s{int(m[1], 16)})", text)
    return text.replace(_INK, "var(--muted)").replace(_GRID, "var(--line)")
