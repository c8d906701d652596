"""Charts of scores over the checkpoints of a training as inline SVG, with the colours and sizes of `plots`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib as mpl
from matplotlib.ticker import FixedLocator, MaxNLocator

from holdfast.report.apart import drawn
from holdfast.report.plots import _STYLE, MARKERS, Curve, _axes, _colour, _finish, _svg

WIDEST = 10
"""Characters of a checkpoint's name below its place, at most."""
TICKS = 8
BANDS = 8
"""Curves that have a band each; of more, the last one alone, for so many bands are one grey."""


@dataclass(frozen=True)
class Places:
    """Where checkpoints stand on the horizontal axis.

    Attributes:
        at: one place each.
        label: of the axis.
        names: below the places; empty where the places are numbers that speak for themselves.
    """

    at: list[int]
    label: str
    names: list[str]


def places(names: Sequence[str]) -> Places:
    """Return where checkpoints stand: at the number in their names, where one alone tells them apart, else one by one.

    For example "epoch2", "epoch10" at 2 and 10 of an axis "epoch".
    """
    split = [re.split(r"([0-9]+)", name) for name in names]
    if len({tuple(parts[::2]) for parts in split}) == 1:  # what is no number is the same everywhere
        different = [i for i, column in enumerate(zip(*split, strict=True)) if len(set(column)) > 1]
        numbers = [int(parts[different[0]]) for parts in split] if different else []
        if len(different) == 1 and all(a < b for a, b in pairwise(numbers)):
            words = re.findall(r"[^\W\d_]+", split[0][different[0] - 1])
            return Places(numbers, words[-1] if words else "checkpoint", [])
    short = [name if len(name) <= WIDEST else f"…{name[1 - WIDEST :]}" for name in names]
    return Places(list(range(1, len(names) + 1)), "checkpoint", short)


@drawn
def over_checkpoints(key: str, curves: Sequence[Curve], *, where: Places | None, axis: str, unit: str) -> str:
    """Return lines with bands over checkpoints as SVG.

    Args:
        key: unique name of the chart on its page.
        curves: of scores, or of series, the headline last; NaN leaves a gap.
        where: names of the places; None where curves have places of their own.
        axis: what the horizontal axis shows.
        unit: "share" is drawn in percent.
    """
    with mpl.rc_context({**_STYLE, "svg.hashsalt": key}):
        figure, axes = _axes()
        for c in curves:
            colour, few = _colour(c.series), len(curves) <= 4 or len(curves) > BANDS
            if len(curves) <= BANDS or c is curves[-1]:
                axes.fill_between(c.x, c.low, c.high, color=colour, alpha=0.16 if few else 0.07, linewidth=0)
            axes.plot(
                c.x, c.y, color=colour, marker=MARKERS[c.series % len(MARKERS)], markevery=max(1, len(c.x) // 12),
                markersize=4.5, linewidth=1.6, markeredgewidth=0,
            )  # fmt: skip
        if where is not None and where.names:
            every = -(-len(where.at) // TICKS)
            axes.xaxis.set_major_locator(FixedLocator(where.at[::every]))
            axes.set_xticklabels(where.names[::every])
        else:
            axes.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True, min_n_ticks=1))
        axes.set_xlabel(axis)
        _finish(axes, "", unit)
        return _svg(figure, key)
