"""What a training came to: loss, spread and time, and what its monitors saw first and last."""

import shlex
from collections.abc import Mapping, Sequence

from rich.text import Text

from holdfast.numerics.statistics.score import Score
from holdfast.report.document import Document, ToCopy
from holdfast.report.numbers import duration, number, plural, score
from holdfast.report.table import Table
from holdfast.storage.entry import Number
from holdfast.storage.monitor import MonitorRecord
from holdfast.training.coarseness import explain
from holdfast.training.loop import Trained

FACTS = ("loss", "clean", "attacked", "spread")
"""Columns of the log that are shown."""


def document(trained: Trained, monitors: Sequence[MonitorRecord], seconds: float) -> Document:
    """Return the closing table of a training, what its monitors saw, and how the encoder is used.

    Args:
        trained: what came of it.
        monitors: what its monitors saw.
        seconds: how long this run took.
    """
    first, last = trained.rows[0], trained.rows[-1]
    shown = FACTS if any(row.get("attacked") for row in trained.rows) else ("loss", "spread")
    lines = [[Text(name, "bold"), number(first[name]), number(last[name])] for name in shown]
    for seen in monitors:
        # What a monitor saw first and last stands beside the losses of the first and the last step
        ends = [seen.looks[0], seen.looks[-1]] if seen.looks else []
        for name in _headlines(ends[-1].values if ends else {}):
            lines.append([Text(name, "bold"), *(_cell(look.values, name) for look in ends)])
    share = f"{trained.weights}; " if trained.weights else ""
    before = f", {plural(trained.resumed, 'step')} of them before" if trained.resumed else ""
    return [
        Table(("", "first", "last"), lines),
        *(line for seen in monitors for line in _more(seen)),
        *(Text(f"Warning: {line}", style="bold yellow") for line in explain(trained.comparisons)),
        Text(f"{share}{plural(trained.steps, 'step')}{before}, {duration(seconds)}", style="dim"),
        ToCopy(
            {
                "the encoder": trained.spec,
                "audit it": f"holdfast audit {shlex.quote(trained.spec)} --data FOLDER",
            }
        ),
    ]


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
