"""What hardening did, in the terminal: every measure before and after, the price, and where the encoder is."""

import shlex
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.report._format import BETTER, duration, number, plural, score

_VERDICT = {"better": "green", "worse": "bold red", "open": "yellow"}


def print_hardening(found: Mapping[str, Any], console: Console) -> None:
    """Print a `harden.json`: the table, the price, and how the encoder is used.

    Args:
        found: what `holdfast.harden.run.harden` returned.
        console: where to print.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("measure", "before", "after", "after - before", ""):
        table.add_column(title, justify="left" if title == "measure" else "right")
    for row in found["measures"]:
        table.add_row(
            Text.assemble((row["title"], "bold"), f" {BETTER[row['better']][0]}"),
            *(_cell(row[name], row["unit"]) for name in ("before", "after", "difference")),
            Text(row["verdict"], style=_VERDICT[row["verdict"]]),
        )
    console.print(table)
    console.print(Text(f"better, worse: the paired interval excludes 0. {_counted(found)}", style="dim"))
    cosine, moved = (score(found["price"][name], "ratio") for name in ("cosine", "relative_l2"))
    console.print(f"Price: clean representations moved by {moved} of their length, cosine {cosine}", highlight=False)
    if not any(row["measure"].startswith("probe_accuracy") for row in found["measures"]):
        console.print(Text("no labels, so no accuracy: give labelled images, --train and --test", style="dim"))
    console.print(Text(_scope(found), style="dim"))
    for line in found["failures"]:
        console.print(Text(line, style="bold red"))
    lines = {
        "Encoder": found["encoder"],
        "Use it": f"holdfast audit {shlex.quote(found['encoder'])} --data FOLDER",
        "Again": found["command"],
        "Report": found["report"],
    }
    for name, line in lines.items():
        console.print(Text.assemble(f"{name}: ", (line, "bold")), soft_wrap=True)


def _cell(entry: Mapping[str, Any] | None, unit: str) -> Text:
    if entry is None:
        return Text("-", style="dim")
    return Text(score(entry, unit) if entry.get("value") is not None else number(None))


def _counted(found: Mapping[str, Any]) -> str:
    free = [row for row in found["measures"] if not row["needs_labels"]]
    better = sum(row["verdict"] == "better" for row in free)
    return f"{better} of {plural(len(free), 'measure')} without labels became better."


def _scope(found: Mapping[str, Any]) -> str:
    images = found["images"]
    learned = f"{plural(images['learned'], 'image')} of {images['data']}, {duration(found['seconds'])}"
    audited = f"audited on {images['held_out']} others of {images['test']}"
    return f"{plural(found['steps'], 'step')} of {found['objective']} on {learned}; {audited}"
