"""What hardening did, in the terminal: every measure before and after, the price, and where the encoder is."""

import shlex
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.report.numbers import BETTER, duration, number, plural, score
from holdfast.report.table import Table

_VERDICT = {"better": "green", "worse": "bold red", "open": "yellow"}


def print_hardening(found: Mapping[str, Any], console: Console) -> None:
    """Print a `harden.json`: the table, the price, and how the encoder is used.

    Args:
        found: what `holdfast.workflows.harden.run.harden` returned.
        console: where to print.
    """
    rows = [
        [
            Text.assemble((row["title"], "bold"), f" {BETTER[row['better']][0]}"),
            *(_cell(row[name], row["unit"]) for name in ("before", "after", "difference")),
            Text(row["verdict"], style=_VERDICT[row["verdict"]]),
        ]
        for row in found["measures"]
    ]
    console.print(Table(("measure", "before", "after", "after - before", ""), rows).terminal())
    console.print(Text(f"better, worse: the paired interval excludes 0. {_counted(found)}", style="dim"))
    console.print(Text.assemble(("Price: ", "bold"), price(found)))
    if not any(row["needs_labels"] for row in found["measures"]):
        console.print(Text("no labels, so no accuracy: give labelled images, --train and --test", style="dim"))
    console.print(Text(_scope(found), style="dim"))
    for line in found["warnings"]:
        console.print(Text(f"Warning: {line}", style="bold yellow"))
    for line in found["failures"]:
        console.print(Text(line, style="bold red"))
    spec = bool(found["command"])  # a network of somebody's memory has none
    lines = {"Encoder" if spec else "Weights": found["encoder"]}
    if audited(found) and spec:
        lines["Use it"] = f"holdfast audit {shlex.quote(found['encoder'])} --data FOLDER"
    elif not audited(found):
        console.print(Text("What came out could not be measured: do not use it before you know why.", style="bold red"))
    lines |= {"Again": found["command"]} if spec else {}
    for name, line in {**lines, "Report": found["report"]}.items():
        console.print(Text.assemble(f"{name}: ", (line, "bold")), soft_wrap=True)


def audited(found: Mapping[str, Any]) -> bool:
    """Return whether anything could be measured of the hardened encoder."""
    return any(row["after"] is not None for row in found["measures"])


def price(found: Mapping[str, Any]) -> str:
    """Return what the hardening cost: how far clean representations moved, accuracies, steps and time.

    Args:
        found: a `harden.json`, or the `hardening` of a record.
    """
    moved, cosine = (score(found["price"][name], "ratio") for name in ("relative_l2", "cosine"))
    parts = [f"clean representations moved by {moved} of their length, cosine {cosine}"]
    for row in found["measures"]:
        if row["needs_labels"] and row["before"] and row["after"]:
            parts.append(f"{row['title'].lower()} {_change(row)}")
    return f"{'; '.join(parts)}; {plural(found['steps'], 'step')} in {_time(found)}."


def _change(row: Mapping[str, Any]) -> str:
    before, after = (number(row[end]["value"], row["unit"]) for end in ("before", "after"))
    gap = f" ({score(row['difference'], row['unit'])})" if row["difference"] else ""
    return f"{before} before, {after} after{gap}"


def _time(found: Mapping[str, Any]) -> str:
    """Return how long the training took, beside its budget, and by how much that was missed."""
    took, budget = found["seconds"], found["budget"]
    if budget is None:
        return duration(took)
    missed = took - budget
    by = f", {duration(abs(missed))} {'over' if missed > 0 else 'under'}" if abs(missed) > 0.02 * budget else ""
    return f"{duration(took)} of a budget of {duration(budget)}{by}"


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
    learned = f"{plural(images['learned'], 'image')} of {images['data']}"
    others = f"audited on {images['held_out']} others of {images['test']}, {duration(found['audit_seconds'])} on top"
    return f"{found['objective']} on {learned}, rate {found['rate']:g}; {others}"
