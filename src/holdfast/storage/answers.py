"""What services have answered in a run folder: an answer once paid for is not asked again, and calls are counted."""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar

import numpy as np

from holdfast.runtime.errors import BadPlace, HoldfastError
from holdfast.storage.filesystem import Folder

T = TypeVar("T")

ANSWERS = "cache/answers.sqlite"
"""The file in a run folder."""

MOST = 2**31
"""Bytes of answers that a folder keeps, at most; then the oldest make room."""

WAIT = 60.0
"""Seconds in which another process must have finished writing."""

_TABLES = """
    CREATE TABLE IF NOT EXISTS answers
        (number INTEGER PRIMARY KEY, service BLOB, image BLOB, vector BLOB, UNIQUE (service, image));
    CREATE TABLE IF NOT EXISTS calls (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER);
    INSERT OR IGNORE INTO calls VALUES (1, 0);
"""


class CallsSpent(HoldfastError):
    """As many calls were made as were allowed."""


class Answers:
    """The answers of services in a run folder, and how many calls have been made; processes share it.

    Answers are found by what was sent. A folder on another file system than a local one keeps them, and the number of
    calls, as long as a process lasts.

    Args:
        files: the run folder.
        end: number of calls of this folder at which no further one is made; None: no limit.
        say: told what people should know.
    """

    def __init__(self, files: Folder, end: int | None = None, say: Callable[[str], object] = lambda text: None):
        self._files, self._end, self._say = files, end, say
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._doubtful = set[bytes]()  # services whose answers are of an earlier command

    def __del__(self) -> None:
        self._close()

    @property
    def calls(self) -> int:
        """How many calls have been made in this folder."""
        if self._opened is None and (self._path is None or not self._path.exists()):
            return 0  # none is made of it for encoders that are no service
        return self._do(lambda base: base.execute("SELECT number FROM calls").fetchone()[0])

    def count_call(self, service: str) -> None:
        """Count a call, before it is made.

        Raises:
            CallsSpent: it would be one too many.
        """
        # In one step, since other processes count as well
        end = 2**62 if self._end is None else self._end
        raised = self._do(
            lambda base: base.execute("UPDATE calls SET number = number + 1 WHERE number < ?", (end,)).rowcount
        )
        if not raised:
            raise CallsSpent(
                f"{service}: all calls are made that --calls allows; with more of them the same command goes on "
                "from what was answered"
            )

    def find(self, service: bytes, images: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return the vectors of those images, each by its digest, that a service has answered."""

        def look(base: sqlite3.Connection) -> dict[bytes, np.ndarray]:
            ask = "SELECT vector FROM answers WHERE service = ? AND image = ?"
            rows = ((image, base.execute(ask, (service, image)).fetchone()) for image in dict.fromkeys(images))
            return {image: np.frombuffer(row[0], np.float32) for image, row in rows if row is not None}

        return self._do(look)

    def keep(self, service: bytes, vectors: Mapping[bytes, np.ndarray]) -> None:
        """Keep what a service has answered, by the digests of the images."""
        # In float32, as representations are: what is read is what was answered, to the last bit
        rows = [(service, image, vector.astype(np.float32).tobytes()) for image, vector in vectors.items()]

        def put(base: sqlite3.Connection) -> None:
            base.executemany("INSERT OR IGNORE INTO answers (service, image, vector) VALUES (?, ?, ?)", rows)
            used = [
                base.execute(f"PRAGMA {word}").fetchone()[0] for word in ("page_count", "freelist_count", "page_size")
            ]
            # A tenth at a time, so that not every answer makes room for itself; the file takes up the room again
            if (used[0] - used[1]) * used[2] > MOST:
                base.execute(
                    "DELETE FROM answers WHERE number < (SELECT MIN(number) + (COUNT(*) + 9) / 10 FROM answers)"
                )

        self._do(put)

    def is_doubtful(self, service: bytes) -> bool:
        """Whether a service was asked by an earlier command, and nobody has looked whether it is still the same."""
        self._do(lambda base: None)
        return service in self._doubtful

    def trust(self, service: bytes) -> None:
        """Note that a service still answers as it did."""
        self._doubtful.discard(service)

    def forget(self, service: bytes, name: str) -> None:
        """Forget what a service has answered, for it answers otherwise by now, and say so."""
        self._say(f"{name} answers otherwise than it did: what was kept of it is forgotten, and asked again")
        self._do(lambda base: base.execute("DELETE FROM answers WHERE service = ?", (service,)))
        self._doubtful.discard(service)

    @property
    def _path(self) -> Path | None:
        """The file; None where the folder is on another file system than a local one."""
        return None if self._files.local is None else self._files.local / ANSWERS

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the file, as one step; a damaged one is begun anew."""
        try:
            with (base := self._base()):
                return work(base)
        except sqlite3.OperationalError as error:  # a full disk, a file that another process keeps locked
            raise BadPlace(
                f"cannot keep answers in {self._files.format_path(ANSWERS)!r}: {error}; what is stored is kept"
            ) from error
        except sqlite3.DatabaseError:
            self._close()
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            with (base := self._base()):
                return work(base)

    def _base(self) -> sqlite3.Connection:
        # A connection must not be used behind a fork
        if self._opened is None or self._opened[0] != os.getpid():
            if self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            base = sqlite3.connect(self._path or ":memory:", WAIT, check_same_thread=False)
            # Whole also after a kill; a machine that fails may cost the last answers
            base.execute("PRAGMA synchronous = OFF")
            base.executescript(_TABLES)
            self._doubtful = {service for (service,) in base.execute("SELECT DISTINCT service FROM answers")}
            self._opened = os.getpid(), base
        return self._opened[1]

    def _close(self) -> None:
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None


_open: ContextVar[Answers | None] = ContextVar("answers", default=None)
_reads: ContextVar[bool] = ContextVar("reads", default=False)


def last_call(files: Folder, calls: int | None) -> int | None:
    """Return the number of calls of a run folder after which a command may make none, those of earlier ones included.

    Args:
        files: the run folder.
        calls: how many this command may make; None: as many as it needs.
    """
    return None if calls is None else Answers(files).calls + calls


@contextmanager
def counting(answers: Answers) -> Iterator[None]:
    """Count calls inside, and keep them within their limit."""
    token = _open.set(answers)
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def reading() -> Iterator[None]:
    """Take inside what was answered before for the answer; elsewhere, as in checks, services are asked again."""
    token = _reads.set(True)
    try:
        yield
    finally:
        _reads.reset(token)


def count_call(service: str) -> None:
    """Count a call to a service, where somebody counts them."""
    if (answers := _open.get()) is not None:
        answers.count_call(service)


def answers_to_read() -> Answers | None:
    """Return what was answered before; None where services are to be asked."""
    return _open.get() if _reads.get() else None
