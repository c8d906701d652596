"""Shares as a matrix of coloured cells with their numbers: what was judged in rows, what was attacked in columns."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from holdfast.report.charts.figure import CARD, GRID, PAGE, TEXT, Drawing, Sheet, Value
from holdfast.report.charts.heat import map_to_rgba

STRONGEST = 0.6
"""Of the full colour, for the largest share: text on it must be read, in both themes."""


@dataclass(frozen=True)
class Matrix(Drawing):
    """Shares as colours, strongest at the largest, with their text.

    Attributes:
        values: [rows, columns]; NaN leaves a cell empty.
        texts: of the cells, a value and its interval.
        names: of the rows.
        columns: heads of the columns.
        x: what the columns are.
        y: what the rows are.
    """

    values: np.ndarray
    texts: Sequence[Sequence[tuple[str, str]]]
    names: Sequence[str]
    columns: Sequence[str]
    _: KW_ONLY
    x: str
    y: str

    def _heads(self, sheet: Sheet) -> list[str]:
        return [_in_lines(name, sheet.letters(80 // len(self.columns))) for name in self.columns]

    def height(self, sheet: Sheet) -> float:
        """Return room for each row, and for the heads."""
        heads = max(1 + head.count("\n") for head in self._heads(sheet))
        return (0.6 + 0.13 * heads + 0.42 * len(self.names)) * sheet.size / PAGE.size

    def style(self) -> Mapping[str, Any]:
        """Return that there is no grid."""
        return {"axes.grid": False}

    def draw(self, axes: Axes, sheet: Sheet) -> None:
        """Draw the cells, their numbers, and the heads above them."""
        values = np.nan_to_num(self.values)
        axes.imshow(map_to_rgba(values, float(values.max()) / STRONGEST), aspect="auto", interpolation="none")
        small = min(sheet.small, sheet.width * 10 / max(1, len(self.columns)))
        for row, cells in enumerate(self.texts):
            for column, (value, interval) in enumerate(cells):
                text = "\n".join(filter(None, (value, interval)))
                axes.text(column, row, text, ha="center", va="center", fontsize=small, color=sheet.paint(TEXT))
        axes.set_xticks(range(len(self.columns)), self._heads(sheet), fontsize=small)
        axes.set_yticks(range(len(self.names)), [_in_lines(name, 18) for name in self.names], fontsize=small)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        for row in range(1, len(self.names)):
            axes.axhline(row - 0.5, color=sheet.paint(CARD), linewidth=1)
        for column in range(1, len(self.columns)):
            axes.axvline(column - 0.5, color=sheet.paint(CARD), linewidth=1)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(sheet.paint(GRID))

    def rows(self) -> Iterator[dict[str, Value]]:
        """Yield the cells, row by row."""
        for name, values in zip(self.names, self.values.tolist(), strict=True):
            for column, value in zip(self.columns, values, strict=True):
                yield {"name": name, "column": column, "value": None if np.isnan(value) else value}


def _in_lines(name: str, letters: int) -> str:
    """Return a name in lines of about so many letters, which may begin after _ and /."""
    broken = textwrap.fill(re.sub(r"([_/])(?=\w)", r"\1 ", name), letters)
    return re.sub(r"([_/]) ", r"\1", broken)
