"""What results have in common: they print, are written to files, and become data frames."""

import io
import os
import shutil
from typing import Any

from holdfast.comparison.exports import long_table, pairs_table
from holdfast.report.document import Document
from holdfast.report.media import print_document, to_html
from holdfast.runtime.console import Screen
from holdfast.runtime.errors import missing
from holdfast.storage.comparison import Comparison
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import make_folder, write_text


class Shown:
    """What prints itself, and draws itself in a notebook, as the document that it is shown as."""

    def _document(self) -> Document:
        raise NotImplementedError

    def __str__(self) -> str:
        return text_of(self._document())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return to_html(self._document())


def text_of(document: Document) -> str:
    """Return a document as text without colours, as wide as the terminal is."""
    out = io.StringIO()
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    # said here, because rich asks the environment otherwise, and a Jupyter kernel sets FORCE_COLOR
    print_document(
        document, Screen(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    )
    return out.getvalue().rstrip("\n")


def save_text(path: str | os.PathLike[str], text: str) -> str:
    """Write a text, into a folder that is made where it is missing, and return where it is."""
    place = os.fspath(path)
    if "://" not in place:
        make_folder(Folder(os.path.dirname(place) or "."))
    write_text(place, text)
    return place


def import_pandas() -> Any:
    """Return pandas.

    Raises:
        HoldfastError: it is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise missing("pandas", "pandas", "to_pandas()") from error
    return pandas


def frame(data: Comparison) -> Any:
    """Return the long table of a comparison as a DataFrame, every column with its type."""
    import_pandas()
    return long_table(data).to_pandas()


def pairs_frame(data: Comparison) -> Any:
    """Return the pairs of encoders of a comparison as a DataFrame, every column with its type."""
    import_pandas()
    return pairs_table(data).to_pandas()
