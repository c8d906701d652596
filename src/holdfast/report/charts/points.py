"""Points: one for each row of a table, or one with its intervals for each encoder."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from holdfast.report.charts.figure import CARD, INK, Drawing, Sheet, Value, colour, finish, marker


@dataclass(frozen=True)
class Cloud:
    """Points of one encoder; `hollow` where they are only a bound on one side, or dominated."""

    series: int
    x: np.ndarray
    y: np.ndarray
    hollow: bool = False
    name: str = ""


@dataclass(frozen=True)
class Scattered(Drawing):
    """Points.

    Attributes:
        clouds: finite points of each encoder, none of them empty.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
        units: of both; "share" is drawn in percent.
        diagonal: draw where both values agree, and where the upward one is 0.
    """

    clouds: Sequence[Cloud]
    _: KW_ONLY
    across: str
    label: str
    units: tuple[str, str] = ("", "")
    diagonal: bool

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the points above the line on which both values agree."""
        if self.diagonal:
            ends = [float(end) for c in self.clouds for v in (c.x, c.y) for end in (v.min(), v.max())]
            low, high = min(*ends, 0.0), max(ends)
            axes.plot([low, high], [low, high], color=sheet.paint(INK), linewidth=0.9, linestyle=(0, (2, 2)))
            axes.axhline(0, color=sheet.paint(INK), linewidth=0.6)
        for c in self.clouds:
            tint = sheet.paint(colour(c.series))
            axes.plot(
                c.x, c.y, color=tint, marker=marker(c.series), markersize=4, linestyle="none", alpha=0.6,
                markeredgewidth=0.8 if c.hollow else 0, markerfacecolor="none" if c.hollow else tint,
                label=c.name or None,
            )  # fmt: skip
        finish(axes, self.across, self.label, self.units)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the points of each encoder in turn."""
        for c in self.clouds:
            for x, y in zip(c.x.tolist(), c.y.tolist(), strict=True):
                yield {"series": c.series, "name": c.name, "x": x, "y": y, "bound": int(c.hollow)}


@dataclass(frozen=True)
class Cross:
    """One encoder: value, low and high end on each axis; `front` fills it."""

    series: int
    x: tuple[float, float, float]
    y: tuple[float, float, float]
    front: bool
    name: str = ""


@dataclass(frozen=True)
class Front(Drawing):
    """Encoders on two measures; filled are those that no other dominates by its verdicts.

    Attributes:
        crosses: one per encoder, finite.
        across: what the horizontal axis shows.
        label: what the vertical axis shows.
        units: of both; "share" is drawn in percent.
        better: "lower" or "higher", of both; the corner that is best on both is marked.
    """

    crosses: Sequence[Cross]
    _: KW_ONLY
    across: str
    label: str
    units: tuple[str, str]
    better: tuple[str, str]

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw a cross of both intervals for each encoder."""
        for c in self.crosses:
            tint, alpha = sheet.paint(colour(c.series)), 0.8 if c.front else 0.4
            axes.plot(c.x[1:], [c.y[0]] * 2, color=tint, linewidth=1.2, alpha=alpha)
            axes.plot([c.x[0]] * 2, c.y[1:], color=tint, linewidth=1.2, alpha=alpha)
            axes.plot(
                [c.x[0]], [c.y[0]], color=tint, marker=marker(c.series), markersize=7, markeredgewidth=1.2,
                markerfacecolor=tint if c.front else sheet.paint(CARD), linestyle="none", label=c.name or None,
            )  # fmt: skip
        axes.margins(0.08)
        right, top = (side == "higher" for side in self.better)
        axes.annotate(
            "better", (float(right), float(top)), xycoords="axes fraction", color=sheet.paint(INK),
            fontsize=sheet.size - 1, ha="right" if right else "left", va="top" if top else "bottom",
            xytext=(-4 if right else 4, -4 if top else 4), textcoords="offset points",
        )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(max(3, sheet.letters(36) // 6)))
        finish(axes, self.across, self.label, self.units)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the encoders, with the ends of both intervals."""
        for c in self.crosses:
            (x, x_low, x_high), (y, low, high) = c.x, c.y
            about: dict[str, Value] = {"series": c.series, "name": c.name, "x": x, "x_low": x_low, "x_high": x_high}
            yield about | {"y": y, "low": low, "high": high, "front": int(c.front)}
