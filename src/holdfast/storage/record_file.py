"""Reading `record.json`: the one way in which a record is opened, so that all code behind it can rely on its shape.

A record carries a seal, the digest of everything in it, and the digests of its tables and pictures: what has changed
since the audit wrote it is refused, never believed; so is one of another schema.
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from holdfast.runtime.doors import read_bytes, real
from holdfast.runtime.errors import UnreadableRecord, os_reason
from holdfast.storage.entry import read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.progress_file import alive, read_progress
from holdfast.storage.record import SCHEMA, Record, check_written
from holdfast.storage.seal import SEAL, digest_of, unbroken

RECORD = "record.json"

PLAN = "plan.json"
"""By which the folder of an audit is known that has no record yet."""

REPORT = "report.html"
"""Drawn from the record, and from nothing else."""

LOG = "failures.log"
"""Has the tracebacks of what should not have failed."""


def read_record(folder: Folder, title: str = "") -> Record:
    """Return the record of a run folder.

    Args:
        folder: the run folder.
        title: its name in messages; the folder where None is given.

    Raises:
        UnreadableRecord: no record, one that is damaged or was changed, or something else than a record of an audit.
    """
    place = title or folder.place
    try:
        data = folder.read(RECORD)
    except OSError as error:
        raise _explain_missing(folder, place, error) from error
    return parse_record(data, place)


def _explain_missing(folder: Folder, place: str, error: OSError) -> UnreadableRecord:
    """Return the error for a folder whose record cannot be read: its audit is at work, or came to none, or is none."""
    progress = None if folder.local is None else read_progress(folder.local)
    if isinstance(error, FileNotFoundError) and progress is not None and alive(progress, time.time()):
        return UnreadableRecord(f"expected a record in {place!r}, its audit is still at work; wait for its first round")
    if isinstance(error, FileNotFoundError) and folder.exists(PLAN):
        return UnreadableRecord(
            f"expected a record in {place!r}, its audit has not come to one; run the same command again"
        )
    return UnreadableRecord(
        f"expected a run folder with a readable {RECORD}, got {place!r} ({os_reason(error)}); give the folder that "
        "`holdfast audit` wrote"
    )


def schema_of(data: Any) -> Any:
    """Return the version of a schema that JSON data say they are of; None where they say none."""
    return data.get("schema") if isinstance(data, dict) else None


def parse_record(data: bytes, place: str) -> Record:
    """Return the record in the bytes of a file, see `read_record`."""
    try:
        record = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # bytes that are no text are a ValueError too
        raise UnreadableRecord(
            f"expected JSON in {RECORD} of {place!r}, got something else; run the audit again"
        ) from error
    schema = schema_of(record)
    if type(schema) is not int or schema != SCHEMA:
        version = schema if isinstance(schema, (int, str)) and len(str(schema)) < 20 else "something else"
        newer = type(schema) is int and schema > SCHEMA
        do = "upgrade Holdfast: pip install --upgrade holdfast" if newer else "audit again"
        raise UnreadableRecord(f"expected a record of schema {SCHEMA} in {place!r}, got schema {version!r}; {do}")
    if SEAL in record and not unbroken(record):
        raise UnreadableRecord(
            f"the {RECORD} of {place!r} has been damaged or changed since the audit wrote it; run the audit again"
        )
    try:
        read = read_json(record, Record)
        check_written(record)
    except ValueError as error:
        raise UnreadableRecord(
            f"expected the record of an audit in {place!r}, got one where {error}; audit again"
        ) from error
    return read


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


def files_of(record: Any) -> Iterator[str]:
    """Yield the names of the files that a record speaks of: tables, pictures, noises."""
    if isinstance(record, Mapping):
        for value in record.values():
            yield from files_of(value)
    elif isinstance(record, list):
        for value in record:
            yield from files_of(value)
    elif isinstance(record, str) and record.startswith(("tables/", "pictures/", "noises/")):
        yield record


_MARKS = {RECORD: (b'"holdfast"', b'"encoders"'), PLAN: (b'"plan"', b'"data"')}
"""Files by which a folder is known to hold a run, and what is in them however damaged they may be."""

OWN = frozenset({"cache", "tables", "pictures", "noises"})
"""Subfolders of a run folder that hold what the audit wrote."""


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run of Holdfast, finished or not."""
    for name, words in _MARKS.items():
        with contextlib.suppress(OSError):
            if (folder / name).is_file() and all(word in read_bytes(folder / name) for word in words):
                return True
    return False


@dataclass(frozen=True)
class RunFiles:
    """The files of a run folder, read only as the record knows them.

    Attributes:
        folder: the run folder.
        digests: of its files by their names, as the record has them; others are read as they are.
    """

    folder: Folder
    digests: Mapping[str, str]

    def read(self, name: str, kind: str = "a file") -> bytes:
        """Return the bytes of a file, which is of a kind that errors speak of."""
        path = PurePosixPath(name)
        local = self.folder.local
        linked = local is not None and not real(local / name).is_relative_to(real(local))
        if path.is_absolute() or ".." in path.parts or linked:
            raise UnreadableRecord(
                f"expected a path inside the run folder, got {name!r}; the record was changed by hand"
            )
        try:
            data = self.folder.read(name)
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            raise UnreadableRecord(
                f"expected {kind} at {name}, it cannot be read ({os_reason(error)}); run the audit again"
            ) from error
        if name in self.digests and digest_of(data) != self.digests[name]:
            raise UnreadableRecord(
                f"expected {kind} at {name}, it has been damaged or changed since it was written; run the audit again"
            )
        return data


def run_files(folder: Folder, record: Record) -> RunFiles:
    """Return the files of a run folder, as its record knows them."""
    return RunFiles(folder, record.files)
