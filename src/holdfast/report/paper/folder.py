"""All figures of a record or a comparison as files, with their captions."""

import re
from collections.abc import Sequence

from holdfast.report.paper.figure import DPI, FORMATS, Figure
from holdfast.report.paper.gather import Figures
from holdfast.report.paper.style import Style
from holdfast.report.table import latex_text
from holdfast.runtime.errors import BadValue, unknown
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import make_folder, write_text

CAPTIONS = ("captions.txt", "captions.tex")
"""What each figure shows: as text, and as LaTeX takes it."""


def formats_of(text: str) -> list[str]:
    """Return the formats that a list such as "pdf,csv" names."""
    names = list(dict.fromkeys(name.lower().lstrip(".") for name in re.split(r"[,\s]+", text.strip()) if name))
    for name in names:
        if name not in FORMATS:
            raise unknown("format of a figure", name, FORMATS)
    if not names:
        raise BadValue(f"expected formats such as pdf,csv, got {text!r}")
    return names


def write_figures(
    figures: Figures, folder: str, formats: Sequence[str], style: Style, only: Sequence[str] = (), dpi: float = DPI
) -> list[tuple[Figure, list[str]]]:
    """Write figures into a folder, each in every format, and their captions; return each with where it is.

    Args:
        figures: of a record or a comparison.
        folder: local, or a URL.
        formats: see `FORMATS`.
        style: how they look.
        only: names of those to write; all where none is given.
        dpi: pixels to an inch of a PNG.
    """
    place = Folder(folder)
    make_folder(place)
    chosen = [figures.pick(name, style) for name in dict.fromkeys(only or figures.by_name or ("",))]
    written = []
    for figure in chosen:
        places = [place.format_path(f"{figure.name}.{kind}") for kind in formats]
        for path in places:
            figure.save(path, dpi=dpi)
        written.append((figure, places))
    for name, text in zip(CAPTIONS, (_captions(chosen), _latex(chosen)), strict=True):
        write_text(place.format_path(name), text)
    return written


def _captions(figures: Sequence[Figure]) -> str:
    return "\n".join(f"{figure.name}\n    {figure.caption}\n" for figure in figures)


def _latex(figures: Sequence[Figure]) -> str:
    return "\n".join(f"% {figure.name}\n\\caption{{{latex_text(figure.caption)}}}\n" for figure in figures)
