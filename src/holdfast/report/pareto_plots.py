"""Two measures against each other as inline SVG: a cross of intervals for each encoder, the front filled."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from holdfast.report.apart import drawn
from holdfast.report.plots import _INK, _PERCENT, _STYLE, MARKERS, _axes, _colour, _finish, _svg


@dataclass(frozen=True)
class Point:
    """One encoder: value, low and high end on each axis; `series` picks colour and marker, `front` fills it."""

    series: int
    x: tuple[float, float, float]
    y: tuple[float, float, float]
    front: bool


@drawn
def front(key: str, points: Sequence[Point], *, x: str, y: str, units: tuple[str, str], better: tuple[str, str]) -> str:
    """Return encoders on two measures as SVG; filled are those that no other dominates by its verdicts.

    Args:
        key: unique name of the chart on its page.
        points: one per encoder, finite.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
        units: of x and y; "share" is drawn in percent.
        better: "lower" or "higher", of x and y; the corner that is best on both is marked.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        for p in points:
            colour = _colour(p.series)
            alpha = 0.8 if p.front else 0.4
            axes.plot(p.x[1:], [p.y[0]] * 2, color=colour, linewidth=1.2, alpha=alpha)
            axes.plot([p.x[0]] * 2, p.y[1:], color=colour, linewidth=1.2, alpha=alpha)
            axes.plot(
                [p.x[0]], [p.y[0]], color=colour, marker=MARKERS[p.series % len(MARKERS)], markersize=7,
                markerfacecolor=colour if p.front else "none", markeredgewidth=1.2, linestyle="none",
            )  # fmt: skip
        axes.margins(0.08)
        right, top = (side == "higher" for side in better)
        axes.annotate(
            "better", (float(right), float(top)), xycoords="axes fraction", color=_INK, fontsize=8,
            ha="right" if right else "left", va="top" if top else "bottom",
            xytext=(-4 if right else 4, -4 if top else 4), textcoords="offset points",
        )  # fmt: skip
        axes.set_xlabel(x)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        if units[0] == "share":
            axes.xaxis.set_major_formatter(_PERCENT)
        _finish(axes, y, units[1])
        return _svg(figure, key)
