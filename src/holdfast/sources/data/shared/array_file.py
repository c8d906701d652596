"""NumPy's .npy and .npz files, opened in one place: headers are read before anything is unpacked, pickles never."""

import textwrap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from holdfast.runtime.doors import open_regular, regular
from holdfast.runtime.errors import BadData, HoldfastError, Missing, first_line, os_reason, unknown
from holdfast.runtime.guess import path_meant

RATIO = 100
"""How many times smaller in the file a member of more than `UNTOLD` bytes may be: images come to 20."""

UNTOLD = 2**30
"""Bytes that are unpacked whatever the ratio."""

_HEADER = 2**16
"""Characters of a header that NumPy may evaluate."""


class ArrayFile:
    """A .npz file: named arrays, each read when asked for.

    Args:
        path: the file.

    Raises:
        HoldfastError: a file that is not there, cannot be read, or is no .npz.
    """

    def __init__(self, path: Path):
        self._path = path
        with _reading(path):
            self._zip = zipfile.ZipFile(regular(path))
        # np.savez writes each array as a member NAME.npy
        self._members = {item.filename.removesuffix(".npy"): item for item in self._zip.infolist()}

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array, from its header; () for a member that is none.

        Raises:
            HoldfastError: a member that cannot be read.
        """
        with _reading(self._path, name), self._zip.open(self._members[name]) as file:
            return _header(file)[0] if self._members[name].filename.endswith(".npy") else ()

    def read(self, name: str) -> np.ndarray:
        """Return an array.

        Raises:
            HoldfastError: no such array, or a member that is damaged, no array, a bomb, or made of pickles.
        """
        if name not in self._members:
            raise unknown(f"key of {self._path.name}", name, self._members)
        item = self._members[name]
        with _reading(self._path, name):
            with self._zip.open(item) as file:
                shape, kind = _header(file)
                # Python's integers do not overflow; a side of 0 must not hide the others
                size = int(np.prod([max(1, side) for side in shape], dtype=object)) * kind.itemsize
                # Refused before it is unpacked, by what its header says
                if size > max(UNTOLD, item.compress_size * RATIO):
                    raise ValueError(f"{item.compress_size:,} bytes would unpack to {size:,}")
            # Once more from the beginning, which the header was read from
            with self._zip.open(item) as file:
                held = npy.read_array(file, allow_pickle=False, max_header_size=_HEADER)
                if file.read(1):  # to the end, where the checksum is compared
                    raise ValueError("it goes on behind its array")
        return held


def map_array(path: Path) -> np.ndarray:
    """Return the array of a .npy file, which stays on disk.

    Raises:
        HoldfastError: a file that is not there, cannot be read, or is no .npy.
    """
    with _reading(path):
        with open_regular(path) as file:
            _header(file)  # np.load would take a pickle, or a zip, for what its name says it is not
        return npy.open_memmap(regular(path), mode="r", max_header_size=_HEADER)


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and type of an array, from its header."""
    # Version 3 is 2 with names of fields outside ASCII, which no array of numbers has
    read = {1: npy.read_array_header_1_0, 2: npy.read_array_header_2_0}.get(npy.read_magic(file)[0])
    if read is None:
        raise ValueError("it is of a version of NumPy's format that is not known here")
    shape, _, kind = read(file, max_header_size=_HEADER)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    return shape, kind


@contextmanager
def _reading(path: Path, member: str = "") -> Iterator[None]:
    """Raise whatever reading an array file raises (errors of zip, zlib, struct, NumPy) as one line."""
    try:
        yield
    except HoldfastError:
        raise
    except FileNotFoundError as error:
        raise Missing(f"expected an array file, found none at {str(path)!r}; {path_meant(path)}") from error
    except OSError as error:
        raise BadData(f"cannot read the array file {str(path)!r}: {os_reason(error)}") from error
    except Exception as error:
        part = f"{member!r} in the array file" if member else "the array file"
        reason = textwrap.shorten(first_line(error), 160, placeholder=" …")  # zipfile quotes what it has read
        raise BadData(f"cannot read {part} {str(path)!r} ({reason}); save it again") from error
