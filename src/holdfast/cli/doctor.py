"""holdfast doctor: what is installed."""

import typer
from rich.table import Table
from rich.text import Text

from holdfast.cli.common import JsonOption, answer, out
from holdfast.runtime.errors import Status


def doctor(json_output: JsonOption = False) -> None:
    """Say what is installed, what works, and what to install."""
    from holdfast.sources.encoders import doctor as examine

    findings = examine()
    if json_output:
        answer([{"name": n, "status": s, "detail": d} for n, s, d in findings])
    else:
        colours = {"ok": "green", "missing": "yellow", "broken": "bold red"}
        table = Table("package", "status", "", box=None, pad_edge=False)
        for name, status, detail in findings:
            table.add_row(name, Text(status, colours[status]), detail)
        out.print(table)
    if any(status == "broken" for _, status, _ in findings):
        raise typer.Exit(Status.UNMET)
