"""holdfast doctor: what is installed."""

from rich.table import Table
from rich.text import Text

from holdfast.cli.common import JsonOption, out, partly, show


def doctor(json_output: JsonOption = False) -> None:
    """Show what is installed and what works; the last line says ready, or what to type."""
    from holdfast.sources.encoders import advice
    from holdfast.sources.encoders import doctor as examine

    findings = examine()
    colours = {"ok": "green", "missing": "yellow", "broken": "bold red"}
    table = Table("package", "status", "", box=None, pad_edge=False)
    for name, status, detail in findings:
        table.add_row(name, Text(status, colours[status]), detail)
    data = [dict(zip(("name", "status", "detail"), finding, strict=True)) for finding in findings]
    show(data, json_output, lambda: (out.print(table), out.print(f"\n{advice(findings)}", soft_wrap=True)))
    partly([name for name, status, _ in findings if status == "broken"], True)
