"""Charts of learned noises as inline SVG, with the colours, axes and sizes of `plots`."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from holdfast.report.apart import drawn
from holdfast.report.plots import _GRID, _INK, _STYLE, COLOURS, MARKERS, _axes, _colour, _finish, _svg

BELOW, ABOVE = (46, 134, 193), (217, 105, 26)
"""Blue and orange in the middle between light and dark; zero is transparent, so heat maps fit both themes."""
LEVELS = 24
"""Shades of each: few, so that the picture is small."""
COMPONENTS = 4
"""Components whose means are drawn, the heaviest."""

_WIDTH, _HEIGHT, _MARGIN = 360, 216, 12
_GLYPHS = {  # relative paths in the order of plots.MARKERS; 5 wide
    "o": "m-2.3 0a2.3 2.3 0 1 0 4.6 0a2.3 2.3 0 1 0-4.6 0",
    "s": "m-2-2h4v4h-4z",
    "^": "m0-2.5 2.5 4.5h-5z",
    "D": "m0-2.8 2.8 2.8-2.8 2.8-2.8-2.8z",
    "v": "m0 2.5 2.5-4.5h-5z",
    "P": "m-.8-2.5h1.6v1.7h1.7v1.6h-1.7v1.7h-1.6v-1.7h-1.7v-1.6h1.7z",
    "X": "m-2.4-1.3 1.1-1.1 1.3 1.3 1.3-1.3 1.1 1.1-1.3 1.3 1.3 1.3-1.1 1.1-1.3-1.3-1.3 1.3-1.1-1.1 1.3-1.3z",
}


@drawn
def epochs(key: str, curves: Sequence[tuple[int, Sequence[float]]], *, label: str, unit: str) -> str:
    """Return values in [0, 1] against epochs as SVG.

    Args:
        key: unique name of the chart on its page.
        curves: (series, a value for every epoch) of each line; NaN leaves a gap.
        label: what the vertical axis shows.
        unit: "share" is drawn in percent.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        for series, values in curves:
            axes.plot(
                range(1, len(values) + 1), values, color=_colour(series), marker=MARKERS[series % len(MARKERS)],
                markevery=max(1, len(values) // 8), markersize=4.5, linewidth=1.8, markeredgewidth=0,
            )  # fmt: skip
        axes.set_ylim(-0.02, 1.02)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        axes.set_xlabel("epoch")
        _finish(axes, label, unit)
        return _svg(figure, key)


@dataclass(frozen=True)
class Row:
    """One row of a forest plot.

    Attributes:
        name: what stands at its left.
        family: rows of one family stand together; a line parts families.
        points: (series, value, low, high) of each encoder, shares.
    """

    name: str
    family: int
    points: Sequence[tuple[int, float, float, float]]


@drawn
def forest(key: str, rows: Sequence[Row]) -> str:
    """Return shares with intervals as SVG, a row for each measure from the top down, from 0 to 100 %.

    Args:
        key: unique name of the chart on its page.
        rows: from the top; each of them has a point.
    """
    shown = sorted({point[0] for row in rows for point in row.points})
    step = min(0.26, 0.76 / len(shown))
    names = [textwrap.fill(row.name, 34) for row in rows]
    tall = max(0.32, 0.13 * len(shown), *(0.16 + 0.15 * (1 + name.count("\n")) for name in names))  # inches
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure = Figure(figsize=(5.0, 0.7 + len(rows) * tall), layout="constrained")
        axes = figure.add_subplot()
        for place, series in enumerate(shown):
            found = [(at, *p[1:]) for at, row in enumerate(rows) for p in row.points if p[0] == series]
            at, value, low, high = np.array(found).T
            at = at + step * (place - (len(shown) - 1) / 2)
            axes.hlines(at, low, high, color=_colour(series), linewidth=1.8)
            axes.plot(
                value, at, color=_colour(series), marker=MARKERS[series % len(MARKERS)], markersize=5.5,
                linestyle="none", markeredgewidth=0,
            )  # fmt: skip
        for at, (above, below) in enumerate(pairwise(rows)):
            if above.family != below.family:
                axes.axhline(at + 0.5, color=_GRID, linewidth=1.2)
        axes.grid(visible=False, axis="y")
        axes.set_yticks(range(len(rows)), names)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.set_xlabel("images or draws that hold")
        return _svg(figure, key)


@drawn
def dots(
    points: Sequence[tuple[int | None, np.ndarray]], *, x: str, y: str, origin: tuple[float, float] | None = None
) -> str:
    """Return points on a map as SVG, one path for each group; written by hand, as it is a fifth of the size.

    Args:
        points: (series, [points, 2]) of each group, none of them empty; series None is drawn without a colour.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        origin: where a red cross stands.
    """
    everything = np.concatenate([p for _, p in points] + ([] if origin is None else [np.array([origin])]))
    low, span = everything.min(0), np.ptp(everything, 0)
    size = np.array([_WIDTH - 2 * _MARGIN - 14, _HEIGHT - 2 * _MARGIN - 14])

    def place(values: np.ndarray) -> np.ndarray:
        unit = np.where(span > 0, (values - low) / np.where(span > 0, span, 1), 0.5)
        return np.array([_MARGIN + 14, _MARGIN]) + size * np.column_stack([unit[:, 0], 1 - unit[:, 1]])

    parts = [
        f'<path d="M14 4V{_HEIGHT - 14}H{_WIDTH - 4}" style="fill:none;stroke:var(--line)"/>',
        f'<text x="{_WIDTH - 4}" y="{_HEIGHT - 3}" text-anchor="end">{escape(x)}</text>',
        f'<text transform="translate(9 4) rotate(-90)" text-anchor="end">{escape(y)}</text>',
    ]
    for series, values in points:
        glyph = _GLYPHS[MARKERS[0 if series is None else series % len(MARKERS)]]
        path = "".join(f"M{a:.4g} {b:.4g}{glyph}" for a, b in place(values).tolist())
        colour = "--muted" if series is None else f"--s{series % COLOURS}"
        parts.append(f'<path d="{path}" style="fill:var({colour});opacity:.7"/>')
    if origin is not None:
        a, b = place(np.array([origin]))[0].tolist()
        parts.append(
            f'<path d="M{a - 6:.4g} {b:.4g}h12m-6-6v12" style="fill:none;stroke:var(--bad);stroke-width:2.5"/>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-hidden="true" focusable="false" '
        f'style="font-size:9px;fill:var(--muted)">{"".join(parts)}</svg>'
    )


@drawn
def bars(key: str, names: Sequence[str], values: np.ndarray) -> str:
    """Return mixture weights as SVG: for each name a bar of every component.

    Args:
        key: unique name of the chart on its page.
        names: what stands below each group of bars.
        values: [names, components], shares.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        width = 0.8 / values.shape[1]
        for component, heights in enumerate(values.T):
            places = np.arange(len(names)) + width * (component - (values.shape[1] - 1) / 2)
            axes.bar(places, heights, width, color=_colour(component))
        turned = max(map(len, names)) * len(names) > 40
        axes.set_xticks(
            range(len(names)), names, rotation=35 if turned else 0, ha="right" if turned else "center",
            rotation_mode="anchor" if turned else "default",
        )  # fmt: skip
        axes.grid(visible=False, axis="x")
        axes.set_ylim(0, 1.02)
        _finish(axes, "mixture weight", "share")
        return _svg(figure, key)


@drawn
def component_bars(key: str, means: np.ndarray, weights: np.ndarray) -> str:
    """Return the means of the heaviest components as SVG, one strip of bars for each.

    Args:
        key: unique name of the chart on its page.
        means: [components, axes].
        weights: [components].
    """
    shown = np.sort(np.argsort(-weights, kind="stable")[:COMPONENTS])
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure = Figure(figsize=(5.0, 2.8), layout="constrained")
        strips = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for component, axes in zip(shown.tolist(), strips, strict=True):
            ends = np.arange(means.shape[1] + 1) + 0.5  # one path for all bars
            axes.stairs(means[component], ends, fill=True, color=_colour(component), linewidth=0)
            axes.axhline(0, color=_INK, linewidth=0.6)
            axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.set_ylabel(f"{component + 1}", rotation=0, labelpad=10, va="center")
        strips[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        strips[-1].set_xlabel("principal component of the latent draws")
        figure.supylabel("component", fontsize=9)
        return _svg(figure, key)


@drawn
def heat(key: str, values: np.ndarray, bands: Sequence[tuple[str, int]] = (), *, x: str, y: str = "") -> str:
    """Return a matrix as colours in an SVG: orange above 0, blue below, full at the largest absolute value.

    Args:
        key: unique name of the chart on its page.
        values: [rows, columns], finite.
        bands: (name, rows) of each band, from the top; none for a square matrix.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key, "axes.grid": False}):
        figure, axes = _axes()
        axes.imshow(_coloured(values), aspect="auto" if bands else "equal", interpolation="none")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if bands:
            ends = np.cumsum([rows for _, rows in bands])
            starts = ends - np.array([rows for _, rows in bands])
            axes.set_yticks((starts + ends - 1) / 2, [name for name, _ in bands])
            for end in ends[:-1]:
                axes.axhline(end - 0.5, color=_GRID, linewidth=1)
        return _svg(figure, key)


def _coloured(values: np.ndarray) -> np.ndarray:
    """Return [rows, columns, 4] bytes: the sign is the colour, the magnitude how opaque it is."""
    share = np.abs(values) / max(float(np.abs(values).max()), np.finfo(float).tiny)
    alpha = np.round(share * LEVELS) / LEVELS
    rgb = np.where((values < 0)[..., None], np.array(BELOW), np.array(ABOVE))
    return np.concatenate([rgb, 255 * alpha[..., None]], axis=-1).round().astype(np.uint8)
