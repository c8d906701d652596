"""Charts of SynBench as inline SVG: expected bounds, one line for each ε, and scores against ε."""

import re
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from holdfast.report.apart import drawn
from holdfast.report.plots import _INK, _STYLE, MARKERS, Curve, _axes, _colour, _finish, _svg

_DASHED = (0, (4, 2))
_DOTTED = (0, (1, 2))


def shade(index: int, total: int) -> str:
    """Return the CSS colour of one of so many ε, from the smallest, --e0, to the largest, --e1."""
    return _mixed(round(255 * index / max(1, total - 1)))


@drawn
def bounds(
    key: str, points: np.ndarray, curves: np.ndarray, references: np.ndarray, *, start: float, label: str
) -> str:
    """Return E(a_t) for every ε, with what is possible dashed, as SVG.

    What the smallest ε leaves open, right of `start`, is shaded.

    Args:
        key: unique name of the chart on its page.
        points: threshold accuracies a_t, rising, [P].
        curves: expected bound at each, of the encoder, [ε, P].
        references: the same of the images themselves; one row where all ε have the same, [ε or 1, P].
        start: where the area of the score begins.
        label: what the vertical axis shows.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        right = points >= start - 1e-9
        axes.fill_between(
            points[right], curves[0][right], references[0][right], color=_shade(0, 1), alpha=0.10, linewidth=0
        )
        axes.axvline(start, color=_INK, linewidth=0.9, linestyle=_DOTTED)
        for i in reversed(range(len(curves))):  # the smallest ε lies on top
            axes.plot(points, curves[i], color=_shade(i, len(curves)), linewidth=1.5)
        for i, reference in enumerate(references):
            colour = _INK if len(references) == 1 else _shade(i, len(references))
            axes.plot(points, reference, color=colour, linewidth=1.5, linestyle=_DASHED)
        axes.set_xlim(0.5, 1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("threshold accuracy a_t")
        _finish(axes, label, "ratio")
        return _themed(_svg(figure, key))


@drawn
def over_budgets(key: str, curves: Sequence[Curve], best: Sequence[tuple[int, float, float]], *, across: str) -> str:
    """Return scores with intervals against ε as SVG; a ring stands around the best.

    Args:
        key: unique name of the chart on its page.
        curves: one per encoder; NaN leaves a gap.
        best: (series, ε, score) of each encoder that has one.
        across: what the horizontal axis shows.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        for c in curves:
            colour = _colour(c.series)
            axes.fill_between(c.x, c.low, c.high, color=colour, alpha=0.16 if len(curves) <= 6 else 0.06, linewidth=0)
            axes.plot(
                c.x, c.y, color=colour, marker=MARKERS[c.series % len(MARKERS)], markersize=5, linewidth=1.8,
                markeredgewidth=0,
            )  # fmt: skip
        for series, x, y in best:
            axes.plot([x], [y], marker="o", markersize=12, markerfacecolor="none", markeredgecolor=_colour(series))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(10))
        axes.set_xlabel(across)
        _finish(axes, "score", "ratio")
        return _svg(figure, key)


def _shade(index: int, total: int) -> str:
    return f"#0c02{round(255 * index / max(1, total - 1)):02x}"


def _mixed(level: int) -> str:
    # Polar, so that the way from one end to the other passes through colours and not through grey.
    return f"color-mix(in oklch, var(--e1) {100 * level / 255:.4g}%, var(--e0))"


def _themed(svg: str) -> str:
    return re.sub(r"#0c02([0-9a-f]{2})", lambda found: _mixed(int(found[1], 16)), svg)
