"""What is installed and what works here, and what to type for the rest."""

from collections.abc import Sequence

from rich.text import Text

from holdfast.report.document import Document, ToCopy
from holdfast.report.table import Table

_COLOURS = {"ok": "green", "missing": "yellow", "broken": "bold red"}


def document(findings: Sequence[tuple[str, str, str]], outcome: str, command: str) -> Document:
    """Return each package with its status, and the outcome.

    Args:
        findings: package, status, and a detail of each.
        outcome: of all of them, in a line.
        command: what to type; "" for nothing.
    """
    rows = [[name, Text(status, _COLOURS[status]), detail] for name, status, detail in findings]
    closing = ToCopy({outcome: command}) if command else Text(outcome)
    return [Table(("package", "status", ""), rows, words=(0, 1, 2)), closing]
