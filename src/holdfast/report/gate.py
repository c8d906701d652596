"""What the gate found, in the terminal: every requirement, and below it each encoder, readable without colour."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.config.requirements import Finding
from holdfast.report.numbers import plural

MARKS = {True: ("✓", "green"), False: ("✗", "bold red")}


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print which requirements are met, and why the others are not.

    Args:
        findings: what `holdfast.config.requirements.judge` returned.
        console: where to print; colours follow it.
    """
    table = Table.grid(padding=(0, 1))
    for requirement, group in groupby(findings, key=lambda one: one.requirement):
        ones = list(group)
        compared = Text(f"  {ones[0].compared}", style="dim")
        table.add_row(_mark(all(one.met for one in ones)), Text.assemble((requirement, "bold"), compared))
        for one in ones:
            found = Text(_found(one), style="" if one.met else "red")
            table.add_row("", Text.assemble(_mark(one.met), " ", one.encoder, ": ", found))
    console.print(table)
    missed = sum(not one.met for one in findings)
    said = f"not met: {missed} of {len(findings)}" if missed else f"all {plural(len(findings), 'requirement')} met"
    if len(findings) == 1:
        said = "not met" if missed else "met"
    console.print(Text(said, style=MARKS[not missed][1]))


def _mark(met: bool) -> Text:
    return Text(*MARKS[met])


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as JSON data: {"met": whether all are, "findings": [...]}."""
    return {"met": all(one.met for one in findings), "findings": [asdict(one) for one in findings]}


def _found(one: Finding) -> str:
    """Return what was found and, where that is not enough, why."""
    found = one.found if isinstance(one.found, str) and not one.reason else ""  # a check's reason says it
    if isinstance(one.found, (int, float)):
        found = f"{one.found * 100:.6g} %" if one.unit == "share" else f"{one.found:.6g}"
    return (" " if one.reason.startswith("is not") else ": ").join(filter(None, [found, one.reason]))
