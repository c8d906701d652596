"""Rows of bytes that are kept for all images of an audit, of which there may be millions, and seldom read."""

import tempfile
import weakref

import numpy as np
from jaxtyping import UInt8


class RowsOnDisk:
    """Rows of so many bytes each, in a file that has no name and ends with this.

    Args:
        width: bytes of a row.

    Example:
        >>> rows = RowsOnDisk(2)
        >>> rows.add(b"abcd")
        >>> rows.add(b"ef")
        >>> rows.read().tolist()
        [[97, 98], [99, 100], [101, 102]]
    """

    def __init__(self, width: int):
        self._width, self._count = width, 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 closed where this ends
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._count

    def add(self, rows: bytes | bytearray | memoryview) -> None:
        """Write further rows behind the others.

        Raises:
            OSError: a disk that is full, named by the folder of temporary files.
        """
        try:
            # `read` maps the file, which moves the position
            self._file.seek(0, 2)
            self._file.write(rows)
            self._file.flush()
        except OSError as error:  # the file has no name
            raise OSError(error.errno, error.strerror, f"{tempfile.gettempdir()} (TMPDIR)") from error
        self._count += len(rows) // self._width

    def read(self) -> UInt8[np.ndarray, "rows width"]:
        """Return all rows; what is looked at is in memory as long as they are held, and no longer."""
        if not self._count:  # an empty file has nothing to map
            return np.empty((0, self._width), np.uint8)
        return np.memmap(self._file, np.uint8, "r").reshape(-1, self._width)
