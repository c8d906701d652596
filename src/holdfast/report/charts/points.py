"""Points: one for each row of a table, or one with its intervals for each encoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import CARD, INK, canvas, colour, finish, marker, svg


@dataclass(frozen=True)
class Cloud:
    """Points of one encoder; `hollow` where they are only a bound on one side, or dominated."""

    series: int
    x: np.ndarray
    y: np.ndarray
    hollow: bool = False


@drawn
def scatter(
    key: str, clouds: Sequence[Cloud], *, across: str, label: str, units: tuple[str, str] = ("", ""), diagonal: bool
) -> str:
    """Return points as SVG.

    Args:
        key: unique name of the chart on its page.
        clouds: finite points of each encoder, none of them empty.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
        units: of both; "share" is drawn in percent.
        diagonal: draw where both values agree, and where the upward one is 0.
    """
    with canvas(key) as (figure, axes):
        if diagonal:
            ends = [float(end) for c in clouds for v in (c.x, c.y) for end in (v.min(), v.max())]
            low, high = min(*ends, 0.0), max(ends)
            axes.plot([low, high], [low, high], color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.axhline(0, color=INK, linewidth=0.6)
        for c in clouds:
            axes.plot(
                c.x, c.y, color=colour(c.series), marker=marker(c.series), markersize=4, linestyle="none", alpha=0.6,
                markeredgewidth=0.8 if c.hollow else 0, markerfacecolor="none" if c.hollow else colour(c.series),
            )  # fmt: skip
        finish(axes, across, label, units)
        return svg(figure, key)


@dataclass(frozen=True)
class Cross:
    """One encoder: value, low and high end on each axis; `front` fills it."""

    series: int
    x: tuple[float, float, float]
    y: tuple[float, float, float]
    front: bool


@drawn
def front(
    key: str, crosses: Sequence[Cross], *, across: str, label: str, units: tuple[str, str], better: tuple[str, str]
) -> str:
    """Return encoders on two measures as SVG; filled are those that no other dominates by its verdicts.

    Args:
        key: unique name of the chart on its page.
        crosses: one per encoder, finite.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
        units: of both; "share" is drawn in percent.
        better: "lower" or "higher", of both; the corner that is best on both is marked.
    """
    with canvas(key) as (figure, axes):
        for c in crosses:
            tint, alpha = colour(c.series), 0.8 if c.front else 0.4
            axes.plot(c.x[1:], [c.y[0]] * 2, color=tint, linewidth=1.2, alpha=alpha)
            axes.plot([c.x[0]] * 2, c.y[1:], color=tint, linewidth=1.2, alpha=alpha)
            axes.plot(
                [c.x[0]], [c.y[0]], color=tint, marker=marker(c.series), markersize=7, markeredgewidth=1.2,
                markerfacecolor=tint if c.front else CARD, linestyle="none",
            )  # fmt: skip
        axes.margins(0.08)
        right, top = (side == "higher" for side in better)
        axes.annotate(
            "better", (float(right), float(top)), xycoords="axes fraction", color=INK, fontsize=8,
            ha="right" if right else "left", va="top" if top else "bottom",
            xytext=(-4 if right else 4, -4 if top else 4), textcoords="offset points",
        )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(6))
        finish(axes, across, label, units)
        return svg(figure, key)
