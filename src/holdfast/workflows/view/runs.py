"""The run folders below a folder, and the state of each: done, running, killed, failed or unreadable."""

import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.report.brief import best_first, first_keys
from holdfast.report.names import short_names, shorten_names
from holdfast.report.numbers import format_score_inline
from holdfast.report.verdict import titles
from holdfast.runtime.doors import read_bytes, real
from holdfast.runtime.errors import HoldfastError, UnreadableRecord, describe_error, os_reason
from holdfast.storage.conditions import conditions
from holdfast.storage.documents import parse_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.progress_file import PROGRESS, Progress, alive, read_progress
from holdfast.storage.record import Record
from holdfast.storage.record_file import OWN, PLAN, RECORD, holds_run, read_record
from holdfast.storage.seal import unbroken

STATES = ("running", "done", "killed", "failed", "unreadable", "unread")

AHEAD = 0.1
"""Seconds for which the viewer waits for the records before it begins; the first page lists others as unread."""

SHOWN = 3
"""Encoders of a run whose first number stands in the index, the best ones."""


FRESH = 0.5
"""Seconds for which a look at all folders serves: a page asks for many pictures at once.

No folder is skipped by its time of change: that says nothing of folders below it, and to walk 400 runs takes 26 ms.
"""

SHARE = 5
"""A look serves at least so many times as long as it took, so that most of the time goes into answers."""


@dataclass(frozen=True)
class Facts:
    """What the index says of a record, or of a plan that has none yet.

    Attributes:
        encoders: short name -> whole name.
        data: the spec of the images.
        images: how many there are, and how many of them are attacked; None where that is not known yet.
        profile: which was asked.
        date: when the audit ended, or began: "2026-03-02 10:12", UTC; "" where that is not known.
        numbers: the title of the first measure, and encoder -> its headline, the best first.
        ended: why an audit in rounds made no further one; None where it is not over.
        conditions: what other audits must share to stand beside this one image by image; "" without a record.
    """

    encoders: Mapping[str, str]
    data: str
    images: tuple[int, int] | None
    profile: str
    date: str
    numbers: tuple[str, Mapping[str, str]] | None
    ended: str | None
    conditions: str


@dataclass(frozen=True)
class Run:
    """A run folder as it stands.

    Attributes:
        id: its name in addresses.
        place: its name on pages: the path below the viewed folder.
        folder: where it is.
        state: one of `STATES`.
        reason: of a run that is not done, why not.
        facts: what is known of it; None of one that is unreadable.
        progress: what it last wrote of its progress, unless it is done; see `storage.progress_file`.
        stamp: changes whenever the record does; None without a record that can be read.
    """

    id: str
    place: str
    folder: Path
    state: str
    reason: str
    facts: Facts | None
    progress: Progress | None
    stamp: tuple[int, int] | None


class Runs:
    """The run folders below a folder; what was read of a record is kept until the record changes.

    Links are not followed, neither to folders nor to records.

    Args:
        root: the folder.

    Raises:
        UnreadableRecord: no folder, or one that cannot be read.
    """

    def __init__(self, root: Path):
        try:
            self.root = real(root)
            os.scandir(self.root).close()
        except OSError as error:
            raise UnreadableRecord(
                f"expected a folder with run folders in it, got {str(root)!r}, which cannot be read: {os_reason(error)}"
            ) from error
        self._kept: dict[Path, tuple[tuple[int, int], Facts | str]] = {}
        self._looked: tuple[float, float, list[Run]] | None = None  # when, for how long, and what was there
        self._looking = threading.Lock()
        self._ahead: threading.Thread | None = None

    def read_ahead(self) -> None:
        """Read all records apart, while pages show which runs there are."""
        folders = list(self._folders())

        def read() -> None:
            for folder in folders:
                self._record(folder)

        self._ahead = threading.Thread(target=read, name="holdfast-records", daemon=True)
        self._ahead.start()
        self._ahead.join(AHEAD)

    def wait(self) -> None:
        """Wait until all records are read that `read_ahead` found."""
        if (ahead := self._ahead) is not None:
            ahead.join()
            with self._looking:
                self._ahead = self._looked = None

    def all(self, since: float = FRESH) -> list[Run]:
        """Return all runs by their places, as they stood a short while ago: `since` seconds, or see `SHARE`."""
        with self._looking:
            if self._ahead is not None and not self._ahead.is_alive():
                self._ahead = self._looked = None
            began = time.monotonic()
            if self._looked is None or began - self._looked[0] > max(since, SHARE * self._looked[1]):
                runs = sorted(map(self._run, self._folders()), key=lambda run: run.place)
                now = time.monotonic()
                self._looked = now, now - began, runs
            return self._looked[2]

    def _folders(self) -> Iterator[Path]:
        """Yield the folders that hold a record, or the plan of an audit without one yet."""
        for place, folders, files in os.walk(self.root):
            folder = Path(place)
            is_run = RECORD in files or (PLAN in files and holds_run(folder))
            folders[:] = [name for name in folders if not name.startswith(".") and not (is_run and name in OWN)]
            if is_run:
                yield folder

    def _run(self, folder: Path) -> Run:
        place = folder.relative_to(self.root).as_posix()
        place = self.root.name if place == "." else place
        progress = read_progress(folder) if not (folder / PROGRESS).is_symlink() else None
        now = time.time()
        stamp, facts, reason = None, None, ""
        if folder not in self._kept and self._ahead is not None:
            return Run(
                id_of(place), place, folder, "unread", "its record is being read", _read_plan(folder), None, None
            )
        if os.path.lexists(folder / RECORD):
            stamp, read = self._record(folder)
            facts, reason = (None, read) if isinstance(read, str) else (read, "")
        if progress is not None and alive(progress, now):
            state, reason = "running", ""
            facts = facts or _read_plan(folder)
        elif stamp is None and os.path.lexists(folder / RECORD):
            state = "unreadable"
        else:
            state, reason = _over(facts, progress, now)
            facts = facts or _read_plan(folder)
            if facts is None:
                state, reason = "failed", _read_error(folder)
        if progress is None and os.path.lexists(folder / PROGRESS):
            reason = "; ".join(filter(None, [reason, f"its {PROGRESS} is damaged, or no file, and is not read"]))
        return Run(id_of(place), place, folder, state, reason, facts, None if state == "done" else progress, stamp)

    def _record(self, folder: Path) -> tuple[tuple[int, int] | None, Facts | str]:
        """Return when a record was written, and what it says; None and the reason where it cannot be read."""
        path = folder / RECORD
        try:
            if path.is_symlink():
                raise UnreadableRecord(f"expected a {RECORD}, got a link to another file; the viewer follows no links")
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if folder not in self._kept or self._kept[folder][0] != stamp:
                self._kept[folder] = stamp, _read(folder)
        except (HoldfastError, OSError) as error:
            reason = os_reason(error) if isinstance(error, OSError) else str(error)
            return None, reason.replace(f"{self.root}/", "")
        kept = self._kept[folder][1]
        return (None, kept.replace(f"{self.root}/", "")) if isinstance(kept, str) else (stamp, kept)


def _read(folder: Path) -> Facts | str:
    """Return what a record says, or why it cannot be read."""
    try:
        return _facts(read_record(Folder(folder)))
    except Exception as error:  # also one that nothing is wrong with but what it says
        return describe_error(error)


def _over(facts: Facts | None, progress: Progress | None, now: float) -> tuple[str, str]:
    """Return the state of a run that is not at work, and why it is not done."""
    if progress is not None:
        silent = max(0, round((now - progress.written) / 60))
        since = f"{silent} min ago" if silent else "less than a minute ago"
        kept = "the scores are those of before" if facts else "there is no record yet"
        return "killed", f"its last sign of life was {since}; {kept}; the same command continues it"
    if facts is None:
        return "killed", "there is no record, and no process is at work on it; the same command continues it"
    if facts.ended is None:
        return "killed", "it ended between two rounds; the scores are those of the last one; the same command continues"
    return "done", ""


def _read_plan(folder: Path) -> Facts | None:
    """Return what the plan of an audit without a record says; None where it has none."""
    written = _read_plan_file(folder)
    if written is None or not isinstance(plan := written.get("plan"), dict):
        return None
    names = [label[1] if (label := re.search(r"[?&]label=([^&]+)", name)) else name for name in plan["encoders"]]
    short = {text: name for name, text in short_names(list(dict.fromkeys(names))).items()}
    return Facts(short, plan.get("data") or "", None, plan.get("profile") or "", "", None, None, "")


def _read_plan_file(folder: Path) -> Mapping[str, object] | None:
    """Return what an audit wrote when it began; None where that is not there, or not as it was written."""
    try:
        written = parse_json(read_bytes(folder / PLAN))
    except (OSError, ValueError):
        return None
    return written if unbroken(written) else None


def _read_error(folder: Path) -> str:
    """Return why an audit came to nothing, as far as its folder tells."""
    written = _read_plan_file(folder)
    # Written by hand it may hold anything
    if written is not None and isinstance(error := written.get("error"), str):
        return f"nothing could be audited: {error}"
    return f"nothing could be audited, or its {PLAN} is damaged; run the audit again"


def _facts(record: Record) -> Facts:
    (shown, wholes), data, run = shorten_names(record), record.data, record.run
    shared = hashlib.sha256(repr(sorted(conditions(record).items())).encode()).hexdigest()
    return Facts(
        wholes,
        data.spec,
        (data.images, data.attacked),
        record.plan.profile or "",
        run.finished[:16].replace("T", " "),
        _numbers(shown),
        run.rounds.ended if run.rounds is not None else "complete",
        shared[:10],
    )


def _numbers(record: Record) -> tuple[str, Mapping[str, str]] | None:
    """Return the title of the first measure, and the headlines of the encoders that are best by it."""
    audited = [encoder for _, encoder in best_first(record) if not encoder.error]
    if not audited or not (keys := first_keys(record)):
        return None
    numbers: dict[str, str] = {}
    for encoder in audited[:SHOWN]:
        m = encoder.measures.get(keys[0])
        if m is not None and m.headline_score is not None:
            numbers[encoder.name] = format_score_inline(m.headline_score, m.unit, m.levels)
    return titles(record)[keys[0]], numbers


def id_of(place: str) -> str:
    """Return the name of a run in addresses: readable, safe in every file system, and its own."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", place).strip("-")[-40:].lstrip("-")
    return f"{readable}-{hashlib.sha256(place.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}".lstrip("-")
