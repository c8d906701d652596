"""Progress with the time left: bars on a terminal, a line now and then elsewhere."""

import re
import threading
import time
from collections import deque
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from holdfast.runtime.durations import format_duration


def _column(**widths: int) -> Column:
    """Return a column that shortens its text rather than its neighbours."""
    return Column(no_wrap=True, overflow="ellipsis", **widths)  # pyright: ignore[reportArgumentType]


def short(count: float) -> str:
    """Return a count in four characters or so: 950, 12.3k, 450k, 1.25M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, which would be rounded to "1000"
        if count >= 0.9995 * size:
            value = count / size
            # Three digits in all; the limits lie where one more would come by rounding
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            text = f"{value:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + letter
    return f"{count:.0f}"


UNSAID = "passes"
"""The unit that audits count: nothing that people think in, so a share and a time are told instead."""


class _Done(ProgressColumn):
    """How many steps of a training are done, of all that are planned; of an audit nothing."""

    def render(self, task: Task) -> Text:
        """Return "12.3k/450k steps"."""
        if task.total is None or task.fields["unit"] == UNSAID:
            return Text()
        return Text(_format_count(task.completed, task.total, task.fields["unit"]), "progress.download")


def _format_count(done: float, total: float, unit: str) -> str:
    return f"{short(min(done, total or done))}/{short(total)} {unit}"


class _Left(TimeRemainingColumn):
    """The time left; of one of several encoders none, for that of all of them stands above: `only` its task has one."""

    only: TaskID | None = None

    def render(self, task: Task) -> Text:
        """Return "0:01:20"."""
        return super().render(task) if self.only in (None, task.id) else Text()


LIFE = 60.0
"""Seconds in which a log gets a line, whatever happens."""

PATIENCE = 5.0
"""Seconds that a stage must last before a log hears of it."""

TICK = 1.0
"""Seconds between two looks at the clock."""

WINDOW = 180.0
"""Seconds of which the pace is taken that foretells the time left."""


class Lines:
    """Signs of life for logs: a line where work on an encoder begins, one for each stage that lasts, one a minute.

    A thread of its own writes them, so they come during a long operation too. Nothing is written before something was
    heard.

    Args:
        console: where to print.
        patience: seconds of work before the first line.
    """

    def __init__(self, console: Console, patience: float = 0.0):
        self._console, self._patience, self._since = console, patience, time.monotonic()
        self._name, self._unit, self._stage, self._printed = "", "passes", "", ""
        self._total, self._done, self._begun = 0, 0, 0.0
        self._encoders_after, self._passes_after = 0, 0
        self._pace: deque[tuple[float, int]] = deque()
        self._last = self._since
        self._over, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="holdfast-signs-of-life", daemon=True)

    def start(self) -> None:
        """Begin to watch the clock."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()

    def begin(self, encoder: str, total: int, unit: str) -> None:
        """Note that work on an encoder begins."""
        # The thread of the clock reads and writes the same
        with self._lock:
            self._name, self._total, self._done, self._unit = encoder, total, 0, unit
            self._begun, self._stage, self._printed = time.monotonic(), "", ""
            self._pace.clear()
            self._encoders_after = max(0, self._encoders_after - 1)
            self._passes_after = max(0, self._passes_after - total)
            if self._begun - self._since >= self._patience:
                self.say(f"{encoder}: {'begun' if unit == UNSAID else f'{short(total)} {unit} to make'}")

    def expect(self, encoders: int, passes: int) -> None:
        """Note how much several encoders take, none of which is begun."""
        self._encoders_after, self._passes_after = encoders, passes

    def say(self, text: str, now: float | None = None) -> None:
        """Print a line, with the time of day."""
        self._last = time.monotonic() if now is None else now
        stamp = time.strftime("%H:%M:%S")
        self._console.print(f"{stamp} {text}", soft_wrap=True, highlight=False, markup=False)

    def advance(self, count: int) -> None:
        """Note how much is done."""
        self._done += count

    def stage(self, text: str) -> None:
        """Note what is being done."""
        self._stage = text

    def look(self, now: float) -> None:
        """Print a line if one is due."""
        with self._lock:
            # Only the last minutes tell the pace: before them the work may have been of another kind
            while self._pace and now - self._pace[0][0] > WINDOW:
                self._pace.popleft()
            self._pace.append((now, self._done))
            kind = re.sub(r"[\d.]+", "", self._stage)  # "loss 0.31" and "loss 0.30" are one stage
            due = LIFE if kind == self._printed else PATIENCE
            if (self._stage or self._name) and now - self._last >= due and now - self._since >= self._patience:
                self._printed = kind
                self.say(self._sentence(now), now)

    def _sentence(self, now: float) -> str:
        if not self._name:
            return f"{self._stage} (for {format_duration(now - self._since)})"
        done = min(self._done, self._total)
        share = [f"{done / self._total:.0%}"] if self._total else []
        counted = [] if self._unit == UNSAID else [_format_count(self._done, self._total, self._unit)]
        # The oldest and the newest reading in the window
        (start, before), (_, after) = self._pace[0], self._pace[-1]
        pace = (after - before) / (now - start) if now > start else 0.0
        seconds = (self._total - done + self._passes_after) / pace if pace > 0 else 0.0
        more = "the encoder after it" if self._encoders_after == 1 else f"the {self._encoders_after} encoders after it"
        others = f" with {more}" if self._encoders_after else ""
        # What makes no pass may last, such as scores
        left = [f"about {format_duration(seconds)} left{others}"] if seconds >= 1 else []
        stage = f": {self._stage}" if self._stage else ""
        return f"{self._name}: {', '.join([*counted, *share, *left])}{stage}"

    def _run(self) -> None:
        while not self._over.wait(TICK):
            self.look(time.monotonic())


class Bars:
    """A listener that draws one bar per encoder on a terminal, and one of all; it writes `Lines` elsewhere.

    Args:
        console: where to print.
        quiet: say nothing at all.
        patience: see `Lines`.
    """

    def __init__(self, console: Console, quiet: bool = False, patience: float = 0.0):
        drawn = console.is_terminal and not quiet
        self._lines = None if quiet or drawn else Lines(console, patience)
        self._left = _Left(table_column=_column(min_width=8))
        self._progress = Progress(
            TextColumn("{task.fields[encoder]}", markup=False, table_column=_column(max_width=30)),
            BarColumn(bar_width=16),
            TaskProgressColumn(table_column=_column(min_width=4)),
            _Done(table_column=_column(min_width=9)),
            self._left,
            TextColumn("{task.description}", style="dim", markup=False, table_column=_column(ratio=1)),
            console=console,
            disable=not drawn,
            speed_estimate_period=120,
            expand=True,
        )
        self._task: TaskID | None = None
        self._tasks: dict[str, TaskID] = {}
        self._to_begin = 0  # of several encoders, whose time left is shown
        self._early: TaskID | None = None  # what is done before work on an encoder begins
        self._failures: set[str] = set()

    def __enter__(self) -> "Bars":
        self._progress.start()
        if self._lines is not None:
            self._lines.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self._lines is not None:
            self._lines.stop()
        self._progress.stop()

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Draw a bar for an encoder; the one before it is done."""
        if self._lines is not None:
            self._lines.begin(encoder, passes, unit)
        if self._early is not None:
            self._progress.remove_task(self._early)
            self._early = None
        if self._task is not None:
            self._end_task(self._task)
        self._to_begin -= 1
        if self._left.only is not None and self._to_begin < 0:  # other work than theirs
            self._progress.remove_task(self._left.only)
            self._left.only = None
        # one bar for each encoder, also where rounds begin it again
        if encoder in self._tasks:
            self._progress.remove_task(self._tasks[encoder])
        self._task = self._tasks[encoder] = self._progress.add_task("", total=passes, encoder=encoder, unit=unit)

    def expect(self, encoders: int, passes: int) -> None:
        """Draw a bar for all encoders together, which has the time left."""
        if self._lines is not None:
            self._lines.expect(encoders, passes)
        # Bars of the round before go: this one begins all encoders again
        for task in (*self._tasks.values(), *([] if self._left.only is None else [self._left.only])):
            self._progress.remove_task(task)
        self._task, self._tasks, self._to_begin = None, {}, encoders
        self._left.only = self._progress.add_task("", total=passes, encoder=f"{encoders} encoders", unit=UNSAID)

    def _end_task(self, task: TaskID) -> None:
        """Say that an encoder is done; what it did not need, or failed to make, is not waited for."""
        self._progress.update(task, description="done")
        if (together := self._left.only) is None:
            return
        # The whole shrinks, rather than that much be taken for done: it was not, and tells no pace
        by_number = dict(zip(self._progress.task_ids, self._progress.tasks, strict=True))
        own, every = by_number[task], by_number[together]
        if own.total is not None and every.total is not None:
            self._progress.update(together, total=every.total - max(0, own.total - own.completed))

    def advance(self, passes: int) -> None:
        """Move the current bar."""
        if self._lines is not None:
            self._lines.advance(passes)
        if self._task is not None:
            self._progress.advance(self._task, passes)
            if self._left.only is not None:
                self._progress.advance(self._left.only, passes)

    def stage(self, text: str) -> None:
        """Say what is being done now."""
        if self._lines is not None:
            self._lines.stage(text)
        if self._task is None and self._early is None:
            self._early = self._progress.add_task("", total=None, encoder="", unit="")
        if (task := self._early if self._task is None else self._task) is not None:
            self._progress.update(task, description=text)

    def report_failure(self, text: str) -> None:
        """Say at once what failed, while the rest goes on; in later rounds not again."""
        if text in self._failures:
            return
        self._failures.add(text)
        if self._lines is not None:
            self._lines.say(text)
        elif not self._progress.disable:
            self._progress.console.print(text, style="bold red", soft_wrap=True, highlight=False, markup=False)
