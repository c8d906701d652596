"""`progress.json`: what an audit at work writes beside its record, so that others see how far it is.

An audit that ends takes the file away. One that is killed leaves it behind, and is known by that: its process is gone,
or has written nothing for a while.
"""

import hashlib
import os
import socket
from pathlib import Path
from typing import Literal

from holdfast.numerics.statistics.score import Score
from holdfast.runtime.doors import SMALL, read_bytes
from holdfast.storage.documents import parse_json
from holdfast.storage.entry import Count, Entry, Number, read_json
from holdfast.storage.record import Record

PROGRESS = "progress.json"

EVERY = 2.0
"""Seconds between two signs of life."""

LOST = 5 * EVERY
"""Seconds without a sign of life after which a process that this machine does not know is dead."""

SILENT = 60.0
"""Seconds without a sign of life after which any process is dead: of other machines nothing else is known."""


class Bar(Entry, frozen=True, kw_only=True):
    """How far one part of the work is."""

    name: str
    done: Count
    total: Count


class Scored(Entry, frozen=True, kw_only=True):
    """The headline of a measure of an encoder, with what it takes to show it."""

    encoder: str
    measure: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    levels: bool
    score: Score


class Round(Entry, frozen=True, kw_only=True):
    """One round of an audit: how many images it attacked, how long it took, and its scores."""

    number: Count
    attacked: Count
    seconds: Number
    scores: list[Scored]


class Progress(Entry, frozen=True, kw_only=True):
    """How far an audit at work is; `left` is in seconds, None where it is not known yet."""

    process: Count
    machine: str
    started: str
    written: Number
    stage: str
    unit: str
    encoders: list[str]
    bars: list[Bar]
    left: Number | None
    budget: Number | None
    spent: Number
    rounds: list[Round]
    failures: list[str]


def this_machine() -> str:
    """Return what tells this machine from others without its name: 16 hex digits."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:16]


def read_progress(folder: Path) -> Progress | None:
    """Return what an audit in a folder has last written of its progress; None where there is nothing to be read."""
    try:
        return read_json(parse_json(read_bytes(folder / PROGRESS, SMALL)), Progress)
    except (OSError, ValueError):
        return None


def alive(progress: Progress, now: float) -> bool:
    """Whether the audit that wrote this is still at work.

    Args:
        progress: what it wrote, see `read_progress`.
        now: seconds since the epoch.
    """
    silent = now - progress.written
    if silent > LOST and progress.machine == this_machine() and not _runs(progress.process):
        return False  # not at once: in a container the same number is another process
    return silent <= SILENT


def _runs(process: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(process, 0)  # signal 0 asks, and does nothing
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def round_of(record: Record) -> Round:
    """Return a record as one round of an audit."""
    rounds = record.run.rounds
    return Round(
        number=1 if rounds is None else rounds.number,
        attacked=record.data.attacked,
        seconds=record.run.seconds + (0.0 if rounds is None else rounds.before),
        scores=scores_of(record),
    )


def scores_of(record: Record) -> list[Scored]:
    """Return the headline of each measure of each encoder of a record, with what it takes to show it."""
    return [
        Scored(
            encoder=encoder.name, measure=key, title=m.title, unit=m.unit, better=m.better,
            levels=m.levels, score=m.headline_score,
        )
        for encoder in record.encoders
        for key, m in encoder.measures.items()
        if m.headline_score is not None
    ]  # fmt: skip
