"""The one door through which files go that somebody named: through links and into devices as they are, else whole."""

import errno
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.runtime.doors import read_bytes
from holdfast.runtime.errors import BadPlace, Unwritable, os_reason
from holdfast.runtime.guess import path_meant
from holdfast.runtime.streams import write_answer
from holdfast.storage.filesystem import Folder, encode_text

READER = 5.0
"""Seconds within which somebody must read a pipe that is written into."""

WRONG_NAMES = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP)
"""What the system says of names that no file can have."""

_STREAM = re.compile(r"/dev/(?:stdout|stderr|fd/(\d+))|/proc/self/fd/(\d+)")


def write_file(place: str, put: Callable[[Path], object]) -> None:
    """Write a file that somebody named; `put` gets a path of the same ending.

    No half of it is ever seen. A link is followed, and stays; a device, a pipe or a stream such as /dev/stdout is
    written into. Folders are not made.
    """
    above, _, name = place.rpartition("/")
    if name in ("", ".", ".."):
        raise BadPlace(f"expected the name of a file to write, got {place!r}; give one such as table.csv")
    try:
        if "://" in place and not place.startswith("file://"):
            Folder(above).write(name, put)
            return
        path = Path(place.removeprefix("file://"))
        if _STREAM.fullmatch(str(path)) or _is_special(path):
            with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
                put(part := Path(beside) / f"answer{path.suffix}")
                _pour(read_bytes(part, None), path)
            return
        path = path.resolve()
        if not path.parent.is_dir():
            meant = path_meant(path.parent, "make it first, or check the path")
            raise BadPlace(f"cannot write {place!r}: no such file or folder as {str(path.parent)!r}; {meant}")
        Folder(path.parent).write(path.name, put)
    except RuntimeError as error:  # of a circle of links, in some versions of Python
        raise _unwritable(place, OSError(errno.ELOOP, str(error))) from error
    except OSError as error:
        raise _unwritable(place, error) from error


def write_text(place: str, text: str) -> None:
    """Write a text that somebody named, see `write_file`."""
    write_file(place, lambda part: part.write_bytes(encode_text(text)))


def append_text(place: str, text: str) -> None:
    """Write a text behind what others have written into a file."""
    try:
        with open(place, "ab") as file:
            file.write(encode_text(text))
    except OSError as error:
        raise _unwritable(place, error) from error


def write_inside(folder: Folder, name: str, data: bytes | str) -> str:
    """Write a file of a folder, see `Folder.write`, and return where it is."""
    try:
        folder.write_text(name, data) if isinstance(data, str) else folder.write_bytes(name, data)
    except OSError as error:
        raise _unwritable(folder.format_path(name), error) from error
    return folder.format_path(name)


def make_folder(folder: Folder, under: str = "") -> None:
    """Make a folder where it is missing, see `Folder.make`."""
    try:
        folder.make(under)
    except OSError as error:
        raise _unwritable(folder.format_path(under) if under else folder.place, error) from error


def _unwritable(place: str, error: OSError) -> BadPlace:
    """Return the error for what cannot be written: wrong usage where the name is wrong, else no result."""
    kind = BadPlace if error.errno in WRONG_NAMES else Unwritable
    return kind(f"cannot write {place!r}: {os_reason(error)}")


def _is_special(path: Path) -> bool:
    """Whether something other than a file or a folder stands there."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _pour(data: bytes, path: Path) -> None:
    """Write into a stream, a device or a pipe as it is."""
    match = _STREAM.fullmatch(str(path))
    number = int(match[1] or match[2] or (2 if match[0].endswith("stderr") else 1)) if match else None
    if number == 1:
        write_answer(data)
        return
    handle = os.dup(number) if number is not None else _open_device(path)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _open_device(path: Path) -> int:
    """Open a device, or a pipe that somebody reads or is about to."""
    until = time.monotonic() + READER
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
            os.set_blocking(handle, True)
            return handle
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > until:
                raise OSError("nobody reads the pipe; choose a file") from error
            time.sleep(0.05)
