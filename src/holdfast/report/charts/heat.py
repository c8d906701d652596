"""Matrices as colours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from holdfast.report.charts.figure import GRID, Drawing, Sheet, Value

BELOW, ABOVE = (46, 134, 193), (217, 105, 26)
"""Blue and orange in the middle between light and dark; zero is transparent, so heat maps fit both themes."""
LEVELS = 24
"""Shades of each: few, so that the picture is small."""


@dataclass(frozen=True)
class Heat(Drawing):
    """A matrix as colours: orange above 0, blue below, full at the largest absolute value.

    Attributes:
        values: [rows, columns], finite.
        bands: (name, rows) of each band, from the top; none for a square matrix.
        x: what the horizontal axis shows.
        y: what the vertical axis shows.
    """

    values: np.ndarray
    bands: Sequence[tuple[str, int]] = ()
    _: KW_ONLY
    x: str
    y: str = ""

    def style(self) -> Mapping[str, Any]:
        """Return that there is no grid."""
        return {"axes.grid": False}

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the cells, and a line between bands."""
        axes.imshow(
            map_to_rgba(self.values, float(np.abs(self.values).max())),
            aspect="auto" if self.bands else "equal",
            interpolation="none",
        )
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        if self.bands:
            ends = np.cumsum([rows for _, rows in self.bands])
            starts = ends - np.array([rows for _, rows in self.bands])
            axes.set_yticks((starts + ends - 1) / 2, [name for name, _ in self.bands])
            for end in ends[:-1]:
                axes.axhline(end - 0.5, color=sheet.paint(GRID), linewidth=1)

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the cells, row by row."""
        names = [name for name, rows in self.bands for _ in range(rows)] or [""] * len(self.values)
        for row, (name, values) in enumerate(zip(names, self.values.tolist(), strict=True)):
            for column, value in enumerate(values):
                yield {"name": name, "row": row, "column": column, "value": value}


def map_to_rgba(values: np.ndarray, most: float) -> np.ndarray:
    """Return [rows, columns, 4] bytes: the sign is the colour, the magnitude how opaque it is, fully so at `most`."""
    share = np.abs(values) / max(most, np.finfo(float).tiny)
    alpha = np.round(share * LEVELS) / LEVELS
    rgb = np.where((values < 0)[..., None], np.array(BELOW), np.array(ABOVE))
    return np.concatenate([rgb, 255 * alpha[..., None]], axis=-1).round().astype(np.uint8)
