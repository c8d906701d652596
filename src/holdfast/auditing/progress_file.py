"""Writes `progress.json` while an audit is at work: a thread of its own, so that no encoder waits for the disk."""

import contextlib
import json
import os
import threading
import time
from collections import deque
from datetime import UTC, datetime
from types import TracebackType

from msgspec.structs import replace

from holdfast.auditing.prepare import PreparedAudit
from holdfast.runtime.listener import FailureListener, TotalListener
from holdfast.runtime.privacy import public
from holdfast.runtime.progress import WINDOW
from holdfast.storage.entry import as_json
from holdfast.storage.progress_file import EVERY, PROGRESS, Bar, Progress, Round, round_of, this_machine
from holdfast.storage.record import Record

FAILURES = 50
"""Sentences about failures that are kept, the first ones."""


class ProgressFile:
    """A listener that keeps `progress.json` in a local run folder, and passes on what it hears.

    The file is written when work begins and every `EVERY` seconds; it is deleted when work ends, however it ends, but
    for a kill.

    Args:
        audit: the audit, which is told about.
    """

    def __init__(self, audit: PreparedAudit):
        self._files, self._listener, self._names = audit.store.files, audit.listener, audit.names
        self._budget, self._began = audit.plan.budget, audit.began
        self._bars: list[Bar] = []
        self._unit, self._stage = "passes", ""
        self._rounds: list[Round] = []
        self._failures: list[str] = []
        self._pace: deque[tuple[float, int]] = deque()
        self._started = audit.started.astimezone(UTC).isoformat(timespec="seconds")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-progress-file", daemon=True)

    def __enter__(self) -> "ProgressFile":
        if self._files.local is not None:
            self._write()
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._files.local is not None:
            self._over.set()
            self._thread.join()
            with contextlib.suppress(OSError):
                self._files.delete(PROGRESS)

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Hear that work on an encoder begins; again, where a round begins it again."""
        if any(bar.name == encoder for bar in self._bars):
            self._bars = []  # of the round before
        self._bars = [*self._bars, Bar(name=encoder, done=0, total=passes)]
        self._unit = unit
        self._pace = deque([(time.monotonic(), 0)])
        self._listener.begin(encoder, passes, unit)

    def expect(self, encoders: int, passes: int) -> None:
        """Hear how much all encoders take."""
        if isinstance(self._listener, TotalListener):
            self._listener.expect(encoders, passes)

    def advance(self, passes: int) -> None:
        """Hear that so many have been made."""
        if self._bars:
            bar = self._bars[-1]
            self._bars[-1] = replace(bar, done=bar.done + passes)
        self._listener.advance(passes)

    def stage(self, text: str) -> None:
        """Hear what is being done now."""
        self._stage = text
        self._listener.stage(text)

    def report_failure(self, text: str) -> None:
        """Hear that a part failed, and that the audit goes on."""
        if text not in self._failures and len(self._failures) < FAILURES:
            self._failures = [*self._failures, text]
        if isinstance(self._listener, FailureListener):
            self._listener.report_failure(text)

    def add_round(self, record: Record) -> None:
        """Hear the record of a round."""
        self._rounds = [*self._rounds, round_of(record)]

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            self._write()

    def _write(self) -> None:
        """Write what is known; a disk that refuses ends the audit where it writes what matters."""
        text = json.dumps(public(as_json(self._facts(time.monotonic()))), allow_nan=False, ensure_ascii=False)
        with contextlib.suppress(OSError):
            self._files.write_text(PROGRESS, text)

    def _facts(self, now: float) -> Progress:
        bars = [replace(bar, done=min(bar.done, bar.total)) for bar in self._bars]
        return Progress(
            process=os.getpid(),
            machine=this_machine(),
            started=self._started,
            written=datetime.now(UTC).timestamp(),
            stage=self._stage,
            unit=self._unit,
            encoders=list(self._names),
            bars=bars,
            left=self._estimate_remaining(bars, now),
            budget=self._budget,
            spent=round(time.perf_counter() - self._began, 3),
            rounds=self._rounds,
            failures=self._failures,
        )

    def _estimate_remaining(self, bars: list[Bar], now: float) -> float | None:
        """Return the seconds that the rest of the round takes at the present pace; None where that is not known."""
        if not bars:
            return None
        bar = bars[-1]
        while self._pace and now - self._pace[0][0] > WINDOW:
            self._pace.popleft()
        self._pace.append((now, bar.done))
        (start, before), (_, after) = self._pace[0], self._pace[-1]
        if after <= before:
            return None
        to_begin = len(self._names) - len(bars) if bar.name in self._names else 0  # of all together, none
        return (bar.total - bar.done + to_begin * bar.total) * (now - start) / (after - before)
