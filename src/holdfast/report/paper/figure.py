"""One figure for a paper: drawn, as a file, as numbers, with its caption."""

import csv
import io
import os
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawn

from holdfast.report.charts.figure import Drawing
from holdfast.report.panel import Panel
from holdfast.report.paper.style import Style
from holdfast.runtime.checked import check_arguments
from holdfast.runtime.errors import BadValue, missing, unknown
from holdfast.storage.outputs import write_file

DPI = 300.0
"""Pixels to an inch of a PNG."""

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}  # fmt: skip
"""Nothing that changes from day to day: equal figures are equal files."""


@dataclass(frozen=True)
class Figure:
    """A figure for a paper. Show it in a notebook, or save it.

    Attributes:
        name: what it is called, such as "curve".
        title: what it shows, in a few words.
        how_to_read: what it shows, in a few sentences.
        panel: what is drawn.
        style: how it looks.
    """

    name: str
    title: str
    how_to_read: str
    panel: Panel
    style: Style = field(default_factory=Style)

    @property
    def drawing(self) -> Drawing:
        """The numbers that are drawn."""
        assert self.panel.drawing is not None
        return self.panel.drawing

    @property
    def subject(self) -> str:
        """What it shows, in a line."""
        return self.title if self.panel.title in ("", self.title) else f"{self.title}: {self.panel.title}"

    @property
    def caption(self) -> str:
        """What it shows and how it is read, as text for a caption."""
        return " ".join(filter(None, [f"{self.subject.rstrip('.')}.", self.how_to_read, *self.panel.notes]))

    @check_arguments
    def save(self, path: str | os.PathLike[str], *, dpi: float = DPI) -> str:
        """Write it as the ending of the path says, .svg, .pdf, .png or .csv, and return where it is.

        A CSV holds the numbers that are drawn, a row for each point, as pgfplots and spreadsheets read them.

        Args:
            path: of the file, or its URL.
            dpi: pixels to an inch of a PNG.
        """
        place = os.fspath(path)
        kind = place.rpartition("/")[2].rpartition(".")[2].lower() if "." in place.rpartition("/")[2] else ""
        if kind not in FORMATS:
            raise unknown("format of a figure", kind or place, FORMATS)
        if not 20 <= dpi <= 2400:
            raise BadValue(f"dpi: expected 20 to 2400 pixels to an inch, got {dpi:g}")
        data = FORMATS[kind](self, dpi)
        write_file(place, lambda part: part.write_bytes(data))
        return place

    def csv(self) -> str:
        """Return the numbers that are drawn as CSV: a head, then a row for each point, "nan" where there is none."""
        rows = list(self.drawing.rows())
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(rows[0] if rows else [])
        table.writerows([_plain(value) for value in row.values()] for row in rows)
        return out.getvalue()

    def to_pandas(self) -> Any:
        """Return the numbers that are drawn as a pandas DataFrame."""
        try:
            import pandas
        except ImportError as error:
            raise missing("pandas", "pandas", "to_pandas()") from error
        return pandas.DataFrame(list(self.drawing.rows()))

    def _render(self, kind: str, dpi: float = DPI) -> bytes:
        sheet, buffer = self.style.sheet(), io.BytesIO()
        with self.drawing.context(sheet):
            figure = self.drawing.figure(sheet)
            legend = _add_legend(figure, self.drawing, sheet.size - 1)
            above = max(0.0, legend - 1.5 * sheet.size / 72)  # of more than one line
            figure.set_figheight(sheet.height if sheet.fixed else figure.get_figheight() + above)
            figure.savefig(buffer, format=kind, dpi=dpi, metadata=_METADATA[kind])
        return buffer.getvalue()

    def _repr_svg_(self) -> str:
        return self._render("svg").decode()

    def _repr_png_(self) -> bytes:
        return self._render("png", 150)

    def __repr__(self) -> str:
        return f"Figure {self.name!r}: {self.subject}; save it as .{', .'.join(FORMATS)}"


FORMATS: Mapping[str, Callable[[Figure, float], bytes]] = {
    "svg": lambda figure, _: figure._render("svg"), "pdf": lambda figure, _: figure._render("pdf"),
    "png": lambda figure, dpi: figure._render("png", dpi), "csv": lambda figure, _: figure.csv().encode(),
}  # fmt: skip
"""Ending of a file -> what is in it."""


def _plain(value: Any) -> str:
    """Return a cell without what would end or split it in a spreadsheet or in TeX, which knows no quotes."""
    if value is None:
        return "nan"
    if not isinstance(value, str):
        return repr(value)
    text = " ".join(re.sub(r"[,;\"%#{}\\$&^~]", " ", value).split())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _add_legend(figure: Drawn, drawing: Drawing, size: float) -> float:
    """Put the names above the axes, in as many columns as fit, where there are two; return its height in inches."""
    named = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for each in named for handle, label in zip(*each, strict=True)}
    if len(handles) < 2:
        return 0.0
    places = {str(row.get("name")): place for place, row in enumerate(drawing.rows())}
    handles = dict(sorted(handles.items(), key=lambda item: places.get(item[0], 0)))
    most = figure.get_figwidth() * 72 / (0.55 * size) - 6
    names = [textwrap.fill(name, int(most)) for name in handles]
    renderer = FigureCanvasAgg(figure).get_renderer()
    extent = figure.bbox
    for columns in range(min(len(handles), 5), 0, -1):
        legend = figure.legend(
            handles.values(), names, loc="outside upper center", ncols=columns, frameon=False, fontsize=size,
            handlelength=1.6, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.2, labelspacing=0.3,
        )  # fmt: skip
        extent = legend.get_window_extent(renderer)
        if columns == 1 or extent.width <= figure.bbox.width:
            break
        legend.remove()
    return extent.height / figure.dpi
