"""What results have in common: they print, are written to files, and become data frames."""

import io
import os
import shutil
from collections.abc import Callable
from typing import Any

from rich.console import Console

from holdfast.comparison.exports import long_table, pairs_table
from holdfast.runtime.console import Screen
from holdfast.runtime.errors import missing
from holdfast.storage.comparison import Comparison
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import make_folder, write_text


def text_of(show: Callable[[Console], object]) -> str:
    """Return the text that `show` prints, without colours, as wide as the terminal is."""
    out = io.StringIO()
    width = max(60, shutil.get_terminal_size((100, 24)).columns)
    # said here, because rich asks the environment otherwise, and a Jupyter kernel sets FORCE_COLOR
    show(Screen(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False))
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
