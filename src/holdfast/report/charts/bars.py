"""Bars: groups of them, and strips of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from holdfast.report.charts.figure import INK, Drawing, Sheet, Value, colour, finish

COMPONENTS = 4
"""Components whose means are drawn, the heaviest."""


@dataclass(frozen=True)
class Bars(Drawing):
    """Mixture weights: for each name a bar of every component.

    Attributes:
        names: what stands below each group of bars.
        values: [names, components], shares.
    """

    names: Sequence[str]
    values: np.ndarray

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the bars of one component after those of another."""
        width = 0.8 / self.values.shape[1]
        for component, heights in enumerate(self.values.T):
            places = np.arange(len(self.names)) + width * (component - (self.values.shape[1] - 1) / 2)
            name = f"component {component + 1}"
            axes.bar(places, heights, width, color=sheet.paint(colour(component)), label=name)
        turned: dict[str, Any] = {}
        if max(map(len, self.names)) * len(self.names) > sheet.letters(40):
            turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(len(self.names)), self.names, **turned)
        axes.grid(visible=False, axis="x")
        axes.set_ylim(0, 1.02)
        finish(axes, "", "mixture weight", ("", "share"))

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the bars of each group in turn."""
        for group, (name, heights) in enumerate(zip(self.names, self.values.tolist(), strict=True)):
            for component, height in enumerate(heights, 1):
                yield {"name": name, "x": group, "component": component, "y": height}


@dataclass(frozen=True)
class ComponentBars(Drawing):
    """The means of the heaviest components, one strip of bars for each.

    Attributes:
        means: [components, axes].
        weights: [components].
    """

    means: np.ndarray
    weights: np.ndarray

    def _components(self) -> list[int]:
        return np.sort(np.argsort(-self.weights, kind="stable")[:COMPONENTS]).tolist()

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the strips instead of the one pair of axes."""
        shown, figure = self._components(), axes.figure
        assert isinstance(figure, Figure)
        axes.remove()
        strips = figure.subplots(len(shown), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for component, strip in zip(shown, strips, strict=True):
            ends = np.arange(self.means.shape[1] + 1) + 0.5  # one path for all bars
            tint = sheet.paint(colour(component))
            strip.stairs(self.means[component], ends, fill=True, color=tint, linewidth=0)
            strip.axhline(0, color=sheet.paint(INK), linewidth=0.6)
            strip.yaxis.set_major_locator(MaxNLocator(3))
            strip.set_ylabel(f"{component + 1}", rotation=0, labelpad=10, va="center")
        strips[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True, min_n_ticks=1))
        strips[-1].set_xlabel("principal component of the latent draws")
        figure.supylabel("component", fontsize=sheet.size)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the means of each component in turn."""
        for component in self._components():
            for place, mean in enumerate(self.means[component].tolist(), 1):
                yield {"component": component + 1, "x": place, "y": mean}
