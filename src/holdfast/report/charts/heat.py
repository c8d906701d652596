"""Matrices as colours."""

from collections.abc import Sequence

import numpy as np

from holdfast.report.apart import drawn
from holdfast.report.charts.figure import GRID, canvas, svg

BELOW, ABOVE = (46, 134, 193), (217, 105, 26)
"""Blue and orange in the middle between light and dark; zero is transparent, so heat maps fit both themes."""
LEVELS = 24
"""Shades of each: few, so that the picture is small."""


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
    with canvas(key, style={"axes.grid": False}) as (figure, axes):
        axes.imshow(_coloured(values), aspect="auto" if bands else "equal", interpolation="none")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if bands:
            ends = np.cumsum([rows for _, rows in bands])
            starts = ends - np.array([rows for _, rows in bands])
            axes.set_yticks((starts + ends - 1) / 2, [name for name, _ in bands])
            for end in ends[:-1]:
                axes.axhline(end - 0.5, color=GRID, linewidth=1)
        return svg(figure, key)


def _coloured(values: np.ndarray) -> np.ndarray:
    """Return [rows, columns, 4] bytes: the sign is the colour, the magnitude how opaque it is."""
    share = np.abs(values) / max(float(np.abs(values).max()), np.finfo(float).tiny)
    alpha = np.round(share * LEVELS) / LEVELS
    rgb = np.where((values < 0)[..., None], np.array(BELOW), np.array(ABOVE))
    return np.concatenate([rgb, 255 * alpha[..., None]], axis=-1).round().astype(np.uint8)
