"""Bars: groups of them, and strips of them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import INK, canvas, colour, finish, svg

COMPONENTS = 4
"""Components whose means are drawn, the heaviest."""


@drawn
def bars(key: str, names: Sequence[str], values: np.ndarray) -> str:
    """Return mixture weights as SVG: for each name a bar of every component.

    Args:
        key: unique name of the chart on its page.
        names: what stands below each group of bars.
        values: [names, components], shares.
    """
    with canvas(key) as (figure, axes):
        width = 0.8 / values.shape[1]
        for component, heights in enumerate(values.T):
            places = np.arange(len(names)) + width * (component - (values.shape[1] - 1) / 2)
            axes.bar(places, heights, width, color=colour(component))
        turned = max(map(len, names)) * len(names) > 40
        axes.set_xticks(
            range(len(names)), names, rotation=35 if turned else 0, ha="right" if turned else "center",
            rotation_mode="anchor" if turned else "default",
        )  # fmt: skip
        axes.grid(visible=False, axis="x")
        axes.set_ylim(0, 1.02)
        finish(axes, "", "mixture weight", ("", "share"))
        return svg(figure, key)


@drawn
def component_bars(key: str, means: np.ndarray, weights: np.ndarray) -> str:
    """Return the means of the heaviest components as SVG, one strip of bars for each.

    Args:
        key: unique name of the chart on its page.
        means: [components, axes].
        weights: [components].
    """
    shown = np.sort(np.argsort(-weights, kind="stable")[:COMPONENTS])
    with canvas(key) as (figure, axes):
        axes.remove()
        strips = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for component, axes in zip(shown.tolist(), strips, strict=True):
            ends = np.arange(means.shape[1] + 1) + 0.5  # one path for all bars
            axes.stairs(means[component], ends, fill=True, color=colour(component), linewidth=0)
            axes.axhline(0, color=INK, linewidth=0.6)
            axes.yaxis.set_major_locator(MaxNLocator(3))
            axes.set_ylabel(f"{component + 1}", rotation=0, labelpad=10, va="center")
        strips[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        strips[-1].set_xlabel("principal component of the latent draws")
        figure.supylabel("component", fontsize=9)
        return svg(figure, key)
