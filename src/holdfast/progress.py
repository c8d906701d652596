"""Progress bars with the time left, counted in encoder passes."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Column


def _column(**widths: int) -> Column:
    """Return a column that shortens its text rather than its neighbours."""
    return Column(no_wrap=True, overflow="ellipsis", **widths)  # pyright: ignore[reportArgumentType]


class Bars:
    """An audit's listener that draws one bar per encoder; silent where the console is not a terminal."""

    def __init__(self, console: Console):
        self._progress = Progress(
            TextColumn("{task.fields[encoder]}", table_column=_column(max_width=30)),
            BarColumn(bar_width=16),
            TaskProgressColumn(table_column=_column(min_width=4)),
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

    def begin(self, encoder: str, passes: int) -> None:
        """Draw a bar for an encoder; the one before it is done."""
        self.stage("done")
        self._task = self._progress.add_task("", total=passes, encoder=encoder)

    def advance(self, passes: int) -> None:
        """Move the current bar."""
        if self._task is not None:
            self._progress.advance(self._task, passes)

    def stage(self, text: str) -> None:
        """Say what is being done now."""
        if self._task is not None:
            self._progress.update(self._task, description=text)
