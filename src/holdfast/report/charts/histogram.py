"""Histograms that lie over each other, with or without a smooth curve over them."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import gaussian_kde

from holdfast.report.charts.figure import CARD, Drawing, Sheet, Value, colour, finish, marker
from holdfast.report.charts.lines import draw_marks, height_of, place_marks

ALONG = 128
"""Places at which a smooth curve is drawn."""


@dataclass(frozen=True)
class Spread:
    """Finite values [images] of one encoder, at least one; `hollow` where they are only a bound on one side."""

    series: int
    values: np.ndarray
    hollow: bool = False
    name: str = ""


@dataclass(frozen=True)
class Histogram(Drawing):
    """Overlaid histograms with shared bins; a marker stands at each median.

    Attributes:
        spreads: the values of each encoder.
        label: what the horizontal axis shows.
        unit: "share" is drawn in percent.
        bins: number of bins over the range of all values together.
        smooth: whether a kernel density estimate lies over each histogram: Gaussian, its width by Scott's rule. It
            reaches as far beyond the values as it is wide, and has the area of the histogram.
        marks: places with a name, on a dotted line each.
    """

    spreads: Sequence[Spread]
    _: KW_ONLY
    label: str
    unit: str = ""
    bins: int = 32
    smooth: bool = False
    marks: Sequence[tuple[float, str]] = ()

    def _place_marks(self, sheet: Sheet) -> list[tuple[float, str, int]]:
        """Return the marks with the rows of their names, see `place_marks`."""
        edges, _ = self._shares()
        ends = [*edges[[0, -1]], *(x for along, _ in self._densities() for x in along[[0, -1]])]
        ends += [place for place, _ in self.marks]
        return place_marks(self.marks, min(ends), max(ends), sheet)

    def height(self, sheet: Sheet) -> float:
        """Return more where the names of marks stand above the axes."""
        return sheet.height + height_of(self._place_marks(sheet), sheet)

    def _densities(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the smooth curve of each encoder [places], in shares of a bin; flat where all values are equal."""
        edges, _ = self._shares()
        curves = []
        for s in self.spreads if self.smooth else ():
            if np.ptp(s.values) == 0:
                curves.append((s.values, np.zeros(len(s.values))))
                continue
            density = gaussian_kde(s.values)  # by Scott's rule
            reach = 3 * float(np.sqrt(density.covariance[0, 0]))
            along = np.linspace(s.values.min() - reach, s.values.max() + reach, ALONG)
            curves.append((along, density(along) * (edges[1] - edges[0])))
        return curves

    def _shares(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the edges of the bins [bins + 1], and the share of the images of each encoder in each [bins]."""
        edges = np.histogram_bin_edges(np.concatenate([s.values for s in self.spreads]), bins=self.bins)
        return edges, [np.histogram(s.values, bins=edges)[0] / len(s.values) for s in self.spreads]

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the outline of each histogram, and its median above all of them."""
        edges, shares = self._shares()
        top = max(float(share.max()) for share in shares)
        for s, share in zip(self.spreads, shares, strict=True):
            tint, dashes = sheet.paint(colour(s.series)), (0, (2, 2))
            axes.stairs(share, edges, fill=True, color=tint, alpha=0.18 if len(shares) <= 6 else 0.04, linewidth=0)
            axes.stairs(share, edges, color=tint, linewidth=1.4, linestyle=dashes if s.hollow else "-")
            median = float(np.median(s.values))
            axes.plot([median, median], [0, top * 1.1], color=tint, linewidth=0.9, linestyle=dashes)
            axes.plot(
                [median], [top * 1.1], color=tint, marker=marker(s.series), markersize=6, label=s.name or None,
                markeredgewidth=1.2 if s.hollow else 0, markerfacecolor=sheet.paint(CARD) if s.hollow else tint,
            )  # fmt: skip
        # The smooth curves lie on top, and the axis ends above them
        for s, (along, heights) in zip(self.spreads, self._densities(), strict=False):
            axes.plot(along, heights, color=sheet.paint(colour(s.series)), linewidth=1.8)
            top = max(top, float(heights.max()))
        draw_marks(axes, self._place_marks(sheet), sheet)
        axes.set_ylim(0, top * 1.2)
        finish(axes, self.label, "share of images", (self.unit, "share"))

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the bins of each encoder in turn: their edges, the share of its images in them, and its median."""
        edges, shares = self._shares()
        for s, share in zip(self.spreads, shares, strict=True):
            about: dict[str, Value] = {"series": s.series, "name": s.name}
            median = float(np.median(s.values))
            for start, end, part in zip(edges[:-1].tolist(), edges[1:].tolist(), share.tolist(), strict=True):
                yield about | {"from": start, "to": end, "y": part, "median": median, "bound": int(s.hollow)}
