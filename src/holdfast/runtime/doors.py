"""The one door through which files are opened to be read: regular files, no larger and of no other kind than expected.

A pipe would keep an audit waiting for ever, a device may do anything, and a format that nobody expects may be a program
for another one. What is refused is an OSError whose text says why, so that readers need not know of it.
"""

import errno
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:  # the command line begins without them
    import PIL.Image

MOST = 2**31
"""Bytes of a file that is read at once, at most: a record of the largest audit has a tenth."""

SMALL = 2**24
"""Bytes of a file that somebody wrote by hand, at most."""

PIECE = 2**20
"""Bytes of a file that are read at once, for it may be larger than memory."""

USUAL = ("Bmp", "Gif", "Jpeg", "Png", "Ppm")

FORMATS = (*USUAL, "WebP", "Tiff", "Jpeg2K", "Avif")
"""Pillow's readers that are used, as its modules are called. Others draw PostScript and the like by other programs."""

_STREAM = re.compile(r"/dev/(stdin|fd/\d+)|/proc/(self|\d+)/fd/\d+")
"""What the shell calls streams: standard input, and `<(command)`."""

Place = str | os.PathLike[str]


class Refused(OSError):
    """What stands at a path is no file of the kind, or not of the size, that was expected; the text says why."""


def regular(path: Place, most: int | None = None) -> Path:
    """Return the path of a regular file, for packages that open files themselves; links are followed."""
    # Before anything opens it: to open a pipe is to wait for who writes into it
    _refuse(os.stat(path), path, most)
    return Path(path)


def real(path: Place) -> Path:
    """Return a path without links; of links that lead in a circle, one of them, which nothing can open."""
    return Path(os.path.realpath(path))


def open_regular(path: Place, most: int | None = None) -> BinaryIO:
    """Open a regular file to be read as bytes."""
    regular(path, most)
    # what has become a pipe since is not waited for
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _refuse(os.fstat(handle), path, most)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: Place, most: int | None = MOST) -> bytes:
    """Return the bytes of a regular file."""
    with open_regular(path, most) as file:
        return file.read() if most is None else _read(file, most)


def digest_file(path: Place, heard: Callable[[int], object] = lambda size: None) -> str:
    """Return the SHA-256 of a regular file, however large; `heard` is told how many bytes have been read since."""
    total = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(PIECE):
            total.update(piece)
            heard(len(piece))
    return total.hexdigest()


def read_text(path: Place, most: int = MOST, encoding: str = "utf-8") -> str:
    """Return the text of a regular file, whose lines end with a line feed."""
    return _text(read_bytes(path, most), encoding)


def read_list(path: Place, encoding: str = "utf-8") -> str:
    """Return a text that somebody wrote for a command: a file, or what the shell calls a stream, such as /dev/stdin."""
    if not _STREAM.fullmatch(os.fspath(path)):
        return read_text(path, SMALL, encoding)
    # A device behind the stream would be read to its end
    if stat.S_ISBLK(os.stat(path).st_mode):
        raise Refused("it is a device, no file; give a file")
    with open(path, "rb") as stream:
        return _text(_read(stream, SMALL), encoding)


def decompress(data: bytes, most: int) -> bytes:
    """Return what gzip has compressed."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return _read(file, most)
    except (EOFError, zlib.error) as error:
        raise Refused(f"its compressed content is damaged ({error})") from error


def open_picture(file: Path | io.BytesIO | BinaryIO, formats: Sequence[str] = FORMATS) -> "PIL.Image.Image":
    """Open a picture, of which nothing but the header is read."""
    import PIL.Image

    if isinstance(file, Path):
        regular(file)
    for names in (USUAL, formats):  # what few pictures need is imported when it is needed
        try:
            return PIL.Image.open(file, formats=_readers(tuple(name for name in names if name in formats)))
        except PIL.UnidentifiedImageError:
            if names is formats:
                raise
            if not isinstance(file, Path):
                file.seek(0)
    raise AssertionError


def open_tensors(path: Place) -> Any:
    """Open a safetensors file; its tensors are those of torch."""
    from safetensors import safe_open

    return safe_open(regular(path), "pt")


def _refuse(facts: os.stat_result, path: Place, most: int | None) -> None:
    """Refuse what is no regular file, or one of more bytes than expected."""
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("it is a pipe or a device, no file")
    if most is not None and facts.st_size > most:
        raise Refused(f"it has {facts.st_size:,} bytes, more than {most:,}; give the file that was meant")


def _read(file: Any, most: int) -> bytes:
    """Return all bytes of a stream."""
    pieces, size = list[bytes](), 0
    # One byte beyond the limit tells that there is more
    while piece := file.read(min(2**24, most + 1 - size)):
        pieces.append(piece)
        if (size := size + len(piece)) > most:
            raise Refused(f"it holds more than {most:,} bytes; give the file that was meant")
    return b"".join(pieces)


def _text(data: bytes, encoding: str) -> str:
    # As Python's text mode reads, which this stands for
    return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


@cache
def _readers(names: tuple[str, ...]) -> list[str]:
    """Return the formats of some of Pillow's modules, as far as this Pillow has them."""
    import PIL.Image

    known: list[str] = []
    for name in names:
        try:
            module = import_module(f"PIL.{name}ImagePlugin")
        except ImportError:  # an older Pillow, or one without the library for it
            continue
        plugins = [value for value in vars(module).values() if isinstance(value, type)]
        known += [str(p.format) for p in plugins if issubclass(p, PIL.Image.Image) and getattr(p, "format", None)]
    return [name for name in dict.fromkeys(known) if name in PIL.Image.OPEN]
