"""Progress bars with the time left, counted in encoder passes: as many as `holdfast audit --dry-run` foretells."""

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


def _column(**widths: int) -> Column:
    """Return a column that shortens its text rather than its neighbours."""
    return Column(no_wrap=True, overflow="ellipsis", **widths)  # pyright: ignore[reportArgumentType]


def short(count: float) -> str:
    """Return a count in four characters or so: 950, 12.3k, 450k, 1.25M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            value = count / size
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            text = f"{value:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if digits else text) + letter
    return f"{count:.0f}"


class _Done(ProgressColumn):
    """How many passes (of a training: steps) are done, of all that are planned."""

    def render(self, task: Task) -> Text:
        """Return "12.3k/450k passes"."""
        total = "?" if task.total is None else short(task.total)
        return Text(
            f"{short(min(task.completed, task.total or task.completed))}/{total} {task.fields['unit']}",
            "progress.download",
        )


class Bars:
    """An audit's listener that draws one bar per encoder; silent where the console is not a terminal."""

    def __init__(self, console: Console):
        self._progress = Progress(
            TextColumn("{task.fields[encoder]}", table_column=_column(max_width=30)),
            BarColumn(bar_width=16),
            TaskProgressColumn(table_column=_column(min_width=4)),
            _Done(table_column=_column(min_width=9)),
            TimeRemainingColumn(table_column=_column(min_width=8)),
            TextColumn("{task.description}", style="dim", table_column=_column(ratio=1)),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=120,
            expand=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._progress.stop()

    def begin(self, encoder: str, passes: int, unit: str = "passes") -> None:
        """Draw a bar for an encoder; the one before it is done."""
        self.stage("done")
        self._task = self._progress.add_task("", total=passes, encoder=encoder, unit=unit)

    def advance(self, passes: int) -> None:
        """Move the current bar."""
        if self._task is not None:
            self._progress.advance(self._task, passes)

    def stage(self, text: str) -> None:
        """Say what is being done now."""
        if self._task is not None:
            self._progress.update(self._task, description=text)
