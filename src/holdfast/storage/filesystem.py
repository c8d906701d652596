"""A folder on any file system: local, or what fsspec opens ("s3://bucket/run"). Files appear whole or not at all."""

import contextlib
import os
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.runtime.doors import Refused, read_bytes, real
from holdfast.runtime.errors import BadPlace, BadValue, Missing, first_line, format_install

EXTRAS = {"s3": "s3", "s3a": "s3"}
"""Which extra of Holdfast brings a file system; of others the package is named by fsspec."""


STALE = 3600.0
"""Seconds after which a half file that nobody has written to belongs to nobody."""

_PART = re.compile(r"\.[0-9a-f]{8,16}\.part$")


class Folder:
    """A folder whose files are written beside their place and renamed into it (a local one), or uploaded whole.

    Args:
        place: a path, or a URL such as "s3://bucket/run" or "memory://run". Credentials and endpoints are those of the
            environment, as the file system's package reads them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …).

    Attributes:
        place: the folder as text.
        local: its path; None where it is not on a local file system.

    Raises:
        HoldfastError: a URL that no installed file system opens.
    """

    def __init__(self, place: str | Path):
        self.local: Path | None = None
        text = str(place)
        if not text.strip() or "\0" in text:
            raise BadValue(f"expected a folder, got {text!r}; give a path or a URL")
        if "://" not in text or text.startswith("file://"):
            self.local = Path(text.removeprefix("file://"))
            self.place = str(self.local)
        else:
            self.place = text.rstrip("/")
            self._system, self._root = _remote(self.place)

    def __str__(self) -> str:
        return self.place

    def format_path(self, name: str) -> str:
        """Return a file of the folder as text."""
        return str(self.local / name) if self.local is not None else f"{self.place}/{name}"

    def make(self, under: str = "") -> None:
        """Create the folder, or a subfolder, where it is missing; object stores know no folders."""
        if self.local is not None:
            (self.local / under).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        if self.local is not None:
            return read_bytes(self.local / name)
        with _as_os_error():
            return self._system.cat_file(self._at(name))

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        if self.local is not None:
            return (self.local / name).is_file()
        with _as_os_error():
            return bool(self._system.isfile(self._at(name)))

    def files(self, under: str = "") -> list[str]:
        """Return the names of all files below a subfolder, sorted, as the other methods take them."""
        if self.local is not None:
            names = (path for path in (self.local / under).rglob("*") if path.is_file())
            return sorted(path.relative_to(self.local).as_posix() for path in names)
        with _as_os_error():
            inside = self._at(under) if under else self._root
            names = (str(PurePosixPath(path).relative_to(self._root)) for path in self._system.find(inside))
            return sorted(names)

    def write(self, name: str, put: Callable[[Path], object]) -> None:
        """Write a file through `put`, which gets a local path of the same ending; readers never see half of it."""
        if self.local is None:
            with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
                part = Path(beside) / PurePosixPath(name).name
                put(part)
                with _as_os_error():
                    self._system.put_file(str(part), self._at(name))
            return
        path = self._inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        # no process number: containers that share a folder may have the same one
        part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        try:
            # create exclusively: never follow a planted file or link
            door = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o666)
            usual = stat.S_IMODE(os.fstat(door).st_mode)  # as the umask has it
            os.close(door)
            put(part)
            part.chmod(usual)  # safetensors leaves files that nobody else can read
            os.replace(part, path)
        except BaseException as error:
            if isinstance(error, FileExistsError):  # somebody else's
                raise
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file of bytes, see `write`."""
        self.write(name, lambda part: part.write_bytes(data))

    def write_text(self, name: str, text: str) -> None:
        """Write a file of text, see `write` and `encode_text`."""
        self.write_bytes(name, encode_text(text))

    def delete(self, name: str) -> None:
        """Delete a file; nothing where there is none."""
        if self.local is not None:
            self._inside(name).unlink(missing_ok=True)
            return
        with contextlib.suppress(FileNotFoundError), _as_os_error():
            self._system.rm_file(self._at(name))

    def sweep(self) -> None:
        """Delete half files that killed processes left behind, once nobody can be writing them any more."""
        if self.local is not None:
            for path in self.local.rglob("*.part"):
                with contextlib.suppress(FileNotFoundError):  # another process sweeps as well
                    if _PART.search(path.name) and time.time() - path.stat().st_mtime > STALE:
                        path.unlink()

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        """Give a local path of a file: itself, or a copy that lasts as long as the context."""
        if self.local is not None:
            yield self.local / name
            return
        with tempfile.TemporaryDirectory(prefix="holdfast-") as beside:
            path = Path(beside) / PurePosixPath(name).name
            with _as_os_error():
                self._system.get_file(self._at(name), str(path))
            yield path

    def check_places(self, names: Iterable[str]) -> None:
        """Look where files will be written, before it takes time to make what is in them."""
        for name in names if self.local is not None else ():
            self._inside(name)

    def _inside(self, name: str) -> Path:
        """Return the path of a local file that is written: in the folder, and in no place of a device."""
        assert self.local is not None
        path = self.local / name
        if not real(path.parent).is_relative_to(real(self.local)):
            raise Refused(f"{str(path.parent)!r} is a link that leads out of the folder; put a folder in its place")
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if stat.S_IFMT(os.lstat(path).st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                raise Refused("a pipe or a device is in its place; remove it")
        return path

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"


def local_folder(place: str | Path, what: str = "out") -> Path:
    """Return the path of a run folder that cannot be a URL."""
    if "://" in str(place):
        raise BadPlace(f"{what}: expected a local folder, got {str(place)!r}; only audits write to other file systems")
    return Path(Folder(place).place)


def encode_text(text: str) -> bytes:
    """Return text as UTF-8; halves of pairs, which names of files may have, are spelled out, in JSON's way."""
    return text.encode("utf-8", "backslashreplace")


def _remote(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it."""
    from fsspec.core import url_to_fs

    scheme = url.partition("://")[0]
    try:
        if not scheme:
            raise ValueError("it names none")
        # listings that are remembered would hide what other processes write
        system, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        extra = EXTRAS.get(scheme)
        advice = format_install(extra) if extra else first_line(error)
        raise Missing(f"{url}: the file system {scheme!r} needs another package: {advice}") from error
    except Exception as error:  # file systems inside archives look for them at once, and raise what they like
        raise BadValue(
            f"{url}: expected a folder, or a URL of a file system that fsspec knows (s3://, gs://, …): "
            f"{first_line(error)}"
        ) from error
    return system, root.rstrip("/")


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise what packages of file systems raise as the OSError that readers and writers of files expect."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # botocore has exceptions of its own for credentials and endpoints
        raise OSError(f"{type(error).__name__}: {first_line(error)}") from error
