"""Histograms that lie over each other."""

from collections.abc import Sequence

import numpy as np

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import CARD, canvas, colour, finish, marker, svg


@drawn
def histogram(key: str, values: Sequence[tuple[int, np.ndarray, bool]], *, label: str, bins: int = 32) -> str:
    """Return overlaid histograms with shared bins as SVG; a marker stands at each median.

    Args:
        key: unique name of the chart on its page.
        values: (series, finite values [images], whether they are only a bound on one side) per encoder, none empty.
        label: what the horizontal axis shows.
        bins: number of bins over the range of all values together.
    """
    edges = np.histogram_bin_edges(np.concatenate([column for _, column, _ in values]), bins=bins)
    counts = [np.histogram(column, bins=edges)[0] / len(column) for _, column, _ in values]
    top = max(float(share.max()) for share in counts)
    with canvas(key) as (figure, axes):
        for (series, column, hollow), share in zip(values, counts, strict=True):
            tint, dashes = colour(series), (0, (2, 2))
            axes.stairs(share, edges, fill=True, color=tint, alpha=0.18 if len(values) <= 6 else 0.04, linewidth=0)
            axes.stairs(share, edges, color=tint, linewidth=1.4, linestyle=dashes if hollow else "-")
            median = float(np.median(column))
            axes.plot([median, median], [0, top * 1.1], color=tint, linewidth=0.9, linestyle=dashes)
            axes.plot(
                [median], [top * 1.1], color=tint, marker=marker(series), markersize=6,
                markeredgewidth=1.2 if hollow else 0, markerfacecolor=CARD if hollow else tint,
            )  # fmt: skip
        axes.set_ylim(0, top * 1.2)
        finish(axes, label, "share of images", ("", "share"))
        return svg(figure, key)
