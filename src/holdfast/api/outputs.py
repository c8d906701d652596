"""What results have in common: they are written to files, and become data frames."""

import os
from typing import Any

from holdfast.comparison.exports import long_table, pairs_table
from holdfast.runtime.errors import missing
from holdfast.storage.comparison import Comparison
from holdfast.storage.filesystem import Folder
from holdfast.storage.outputs import make_folder, write_text


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
