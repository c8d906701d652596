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
    for requirement, group in groupby(findings, key=lambda finding: finding.requirement):
        answers = list(group)
        compared = Text(f"  {answers[0].compared}", style="dim")
        table.add_row(_mark(all(finding.met for finding in answers)), Text.assemble((requirement, "bold"), compared))
        for finding in answers:
            actual = Text(_actual(finding), style="" if finding.met else "red")
            table.add_row("", Text.assemble(_mark(finding.met), " ", finding.encoder, ": ", actual))
    console.print(table)
    missed = sum(not finding.met for finding in findings)
    verdict = f"not met: {missed} of {len(findings)}" if missed else f"all {plural(len(findings), 'requirement')} met"
    if len(findings) == 1:
        verdict = "not met" if missed else "met"
    console.print(Text(verdict, style=MARKS[not missed][1]))


def _mark(met: bool) -> Text:
    return Text(*MARKS[met])


def as_data(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the findings as JSON data: {"met": whether all are, "findings": [...]}."""
    rows = [{"found" if key == "actual" else key: v for key, v in asdict(f).items()} for f in findings]
    return {"met": all(finding.met for finding in findings), "findings": rows}


def _actual(finding: Finding) -> str:
    """Return what was found and, where that is not enough, why."""
    value, reason = finding.actual, finding.reason
    text = value if isinstance(value, str) and not reason else ""  # a check's reason says it
    if isinstance(value, (int, float)):
        text = f"{value * 100:.6g} %" if finding.unit == "share" else f"{value:.6g}"
    return (" " if reason.startswith("is not") else ": ").join(filter(None, [text, reason]))
