"""What a training came to, in the terminal: loss, spread and time, and what its monitors saw first and last."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.numbers import duration, number, plural, score
from holdfast.report.table import Table
from holdfast.storage.entry import Number
from holdfast.storage.monitor import MonitorRecord

FACTS = ("loss", "clean", "attacked", "spread")
"""Columns of the log that are shown."""


def print_training(
    rows: Sequence[Mapping[str, float]],
    seconds: float,
    resumed: int,
    monitors: Sequence[MonitorRecord],
    console: Console,
) -> None:
    """Print the closing table of a training.

    Args:
        rows: the log, one row per step.
        seconds: how long this run took.
        resumed: steps that an earlier run had made.
        monitors: what its monitors saw.
        console: where to print.
    """
    first, last = rows[0], rows[-1]
    shown = FACTS if any(row.get("attacked") for row in rows) else ("loss", "spread")
    lines = [[Text(name, "bold"), number(first[name]), number(last[name])] for name in shown]
    for seen in monitors:
        ends = [seen.looks[0], seen.looks[-1]] if seen.looks else []
        for name in _headlines(ends[-1].values if ends else {}):
            lines.append([Text(name, "bold"), *(_cell(look.values, name) for look in ends)])
    console.print(Table(("", "first", "last"), lines).terminal())
    for line in (line for seen in monitors for line in _more(seen)):
        console.print(line)
    before = f", {plural(resumed, 'step')} of them before" if resumed else ""
    console.print(Text(f"{plural(int(last['step']), 'step')}{before}, {duration(seconds)}", style="dim"))


def _headlines(values: Mapping[str, Number | None]) -> list[str]:
    return [name for name in values if "/" not in name and not name.endswith((".low", ".high"))]


def _cell(values: Mapping[str, Number | None], name: str) -> str:
    low, high = values.get(f"{name}.low"), values.get(f"{name}.high")
    return score(Score(values.get(name), low, high, n=0, interval=""), "ratio")


def _more(seen: MonitorRecord) -> list[Text]:
    """Return a line for how much accuracies fluctuated, and one for everything that failed."""
    lines = []
    for name, moved in seen.fluctuation.items():
        if moved.mean:
            text = f"semantic fluctuation of {name}: {score(moved.mean, 'share')} a look, "
            lines.append(Text(text + f"of which chance explains up to {number(moved.noise, 'share')}", style="dim"))
        else:
            lines.append(Text(f"semantic fluctuation of {name}: {moved.problem}", style="yellow"))
    failures = dict.fromkeys(failure for look in seen.looks for failure in look.failures)
    return lines + [Text(failure, style="bold red") for failure in failures]
